"""Clients of `sluice serve`, good and bad: what each got, as one JSON document.

usage: serve_client.py URL IMAGE GOOD CUT DAMAGED LARGE [CLIENTS]

GOOD requests for IMAGE, and as many of the others: uploads that are cut off in the middle, files with damaged bytes, uploads
beyond the server's limit. All are sent by CLIENTS threads in one drawn order.
"""
import collections
import hashlib
import json
import queue
import random
import socket
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request

url, image, *numbers = sys.argv[1:]
good, cut, damaged, large, clients = [int(n) for n in numbers] + [8][: 5 - len(numbers)]
content = open(image, "rb").read()
draw = random.Random(1)
jobs = ["good"] * good + ["cut"] * cut + ["damaged"] * damaged + ["large"] * large
draw.shuffle(jobs)
work = queue.Queue()
for i, job in enumerate(jobs):
    work.put((i, job))
answers, bodies, lock = collections.Counter(), set(), threading.Lock()


def post(body):
    try:
        with urllib.request.urlopen(urllib.request.Request(url + "/predict", data=body, method="POST"), timeout=300) as r:
            return r.status, r.read()
    except urllib.error.HTTPError as e:
        return e.code, e.read()


def leave_half_way():
    where = urllib.parse.urlparse(url)
    with socket.create_connection((where.hostname, where.port)) as s:
        s.sendall(f"POST /predict HTTP/1.1\r\nHost: x\r\nContent-Length: {len(content)}\r\n\r\n".encode())
        s.sendall(content[: len(content) // 2])


def ask(i, job):
    if job == "cut":
        return leave_half_way() or "left", b""
    body = content
    if job == "damaged":
        broken = bytearray(content)
        for k in random.Random(i).sample(range(352 if content[:2] != b"\x1f\x8b" else 10, len(content)), 20):
            broken[k] ^= 0x55
        body = bytes(broken[: len(broken) * 3 // 4])
    if job == "large":
        body = bytes(40 << 20)
    try:
        status, answer = post(body)
    except OSError:  # the server stops reading what is too large
        return "closed", b""
    while status == 429:
        threading.Event().wait(0.05)
        status, answer = post(body)
    return status, answer


def client():
    while True:
        try:
            i, job = work.get_nowait()
        except queue.Empty:
            return
        status, answer = ask(i, job)
        with lock:
            answers[f"{job} {status}"] += 1
            if job == "good":
                bodies.add(hashlib.sha256(answer).hexdigest())


threads = [threading.Thread(target=client) for _ in range(clients)]
[t.start() for t in threads]
[t.join() for t in threads]
print(json.dumps(dict(answers=answers, bodies=sorted(bodies))))
