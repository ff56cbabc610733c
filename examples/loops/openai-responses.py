import json, os, sys, time, urllib.request

MODEL = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
MODEL_HEADERS = {"Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"}
CALLGATE = os.environ.get("CALLGATE_URL", "http://127.0.0.1:8787")
CALLGATE_HEADERS = {"Authorization": f"Bearer {os.environ['CALLGATE_TOKEN']}"}


def send(url, headers, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **headers})
    while True:
        with urllib.request.urlopen(request) as answer:
            if answer.status != 202:
                return json.load(answer)
        time.sleep(int(answer.headers["Retry-After"]))  # calls still run: the same again collects them


def ask(question, turns_max=10):
    tools = send(f"{CALLGATE}/v1/declarations?format=openai-responses", CALLGATE_HEADERS)["tools"]
    history = [{"role": "user", "content": question}]
    for _ in range(turns_max):
        request = {"model": "gpt-5", "input": history, "tools": tools}
        answer = send(f"{MODEL}/responses", MODEL_HEADERS, request)
        turn = send(f"{CALLGATE}/v1/turns?format=openai-responses", CALLGATE_HEADERS, answer)
        if not turn["append"]:
            return "".join(part["text"] for item in answer["output"] if item["type"] == "message"
                           for part in item["content"] if part["type"] == "output_text")
        history += answer["output"] + turn["append"]
    raise RuntimeError(f"no final answer after {turns_max} turns")


print(ask(sys.argv[1]))
