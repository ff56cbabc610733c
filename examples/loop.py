import json, os, sys, urllib.request

MODEL = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
GATE = os.environ.get("CALLGATE_URL", "http://127.0.0.1:8787")


def send(url, token, body=None):
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, headers)) as answer:
        return json.load(answer)


def run(question, turns_max=10):
    gate_token, model_key = os.environ["CALLGATE_TOKEN"], os.environ["OPENAI_API_KEY"]
    tools = send(f"{GATE}/v1/declarations?format=openai-responses", gate_token)["tools"]
    history = [{"role": "user", "content": question}]
    for _ in range(turns_max):
        answer = send(f"{MODEL}/responses", model_key, {"model": "gpt-5", "input": history, "tools": tools})
        turn = send(f"{GATE}/v1/turns?format=openai-responses", gate_token, answer)
        if not turn["append"]:
            return "".join(part["text"] for item in answer["output"] if item["type"] == "message"
                           for part in item["content"] if part["type"] == "output_text")
        history += answer["output"] + turn["append"]
    raise RuntimeError(f"no final answer after {turns_max} turns")


print(run(sys.argv[1]))
