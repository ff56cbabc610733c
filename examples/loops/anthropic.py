import json, os, sys, time, urllib.request

MODEL = os.environ.get("ANTHROPIC_BASE_URL", "https://api.anthropic.com")
MODEL_HEADERS = {"X-Api-Key": os.environ["ANTHROPIC_API_KEY"], "Anthropic-Version": "2023-06-01"}
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
    tools = send(f"{CALLGATE}/v1/declarations?format=anthropic", CALLGATE_HEADERS)["tools"]
    messages = [{"role": "user", "content": question}]
    for _ in range(turns_max):
        request = {"model": "claude-sonnet-5", "max_tokens": 4096, "messages": messages, "tools": tools}
        answer = send(f"{MODEL}/v1/messages", MODEL_HEADERS, request)
        turn = send(f"{CALLGATE}/v1/turns?format=anthropic", CALLGATE_HEADERS, answer)
        if not turn["append"]:
            return "".join(block["text"] for block in answer["content"] if block["type"] == "text")
        messages += [{"role": "assistant", "content": answer["content"]}] + turn["append"]
    raise RuntimeError(f"no final answer after {turns_max} turns")


print(ask(sys.argv[1]))
