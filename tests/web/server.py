"""`sluice open` against whoever should not get in, and against clients that misbehave.

    python tests/web/server.py build/sluice
"""
import hashlib, http.client, json, os, pathlib, resource, signal, socket, subprocess, sys, tempfile, time

from workbench import GRAPH, Sentences, Workbench, made_run

s = Sentences()


def ask(w, method, path, body=None, **changed):
    """The status and the body of an answer; headers in `changed` replace the right ones, None: none."""
    headers = {"Host": f"127.0.0.1:{w.port}", "Authorization": "Bearer " + w.token}
    if body is not None:
        headers["Content-Type"] = "application/json"
    for key, value in changed.items():
        headers[key.replace("_", "-")] = value
    c = http.client.HTTPConnection("127.0.0.1", w.port, timeout=20)
    c.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    data = body if isinstance(body, bytes) else json.dumps(body).encode() if body is not None else b""
    if body is not None and "Content-Length" not in headers:
        headers["Content-Length"] = str(len(data))
    for key, value in headers.items():
        if value is not None:
            c.putheader(key, value)
    c.endheaders()
    try:
        if data:
            c.send(data)
    except OSError:
        pass  # refused before its end
    answer = c.getresponse()
    out = answer.status, answer.read(), dict(answer.getheaders())
    c.close()
    return out


def raw(w, data, seconds=5):
    c = socket.create_connection(("127.0.0.1", w.port))
    c.settimeout(seconds)
    try:
        c.sendall(data)
        got = c.recv(65536)
    except OSError:
        got = b""
    c.close()
    return got


def table(w, rows):
    for sentence, expected, *question in rows:
        method, path = question[0].split(" ")
        body = question[1] if len(question) > 1 else None
        changed = question[2] if len(question) > 2 else {}
        status, text, _ = ask(w, method, path, body, **changed)
        s.check(status == expected, f"{expected} {sentence}", f"{status} {text[:200]!r}")


def opening_a_browser(binary):
    """The address is everybody's to read on a command line: the browser is given a file of the user's own."""
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        (place / "run").mkdir()
        (place / "small.json").write_text(GRAPH)
        opener = place / "xdg-open"
        opener.write_text(f"""#!/bin/sh
stat -c %a "$1" > {place}/mode; cp "$1" {place}/page; tr '\\0' ' ' < /proc/$$/cmdline > {place}/said
echo "$1" > {place}/name
""")
        opener.chmod(0o755)
        run = subprocess.Popen(
            [binary, "open", "small.json"], cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env=os.environ | {"PATH": f"{place}:{os.environ['PATH']}", "DISPLAY": ":77", "XDG_RUNTIME_DIR": str(place / "run")})
        address = run.stdout.readline().strip()
        s.until(lambda: (place / "name").exists() and (place / "name").read_text(), "the browser is given a file")
        s.check((place / "mode").read_text() == "600\n", "which this user alone can read", (place / "mode").read_text())
        s.check(f'url={address}"' in (place / "page").read_text(), "and which goes on to the address")
        s.check(address.split("#")[1] not in (place / "said").read_text(), "the command line does not hold the token")
        run.send_signal(signal.SIGINT)
        run.communicate(timeout=30)
        s.check(not list((place / "run").iterdir()), "the file goes with the server")


def ended_while_it_begins(binary):
    """Ctrl-C before the server listens; on a busy core, where its threads begin in any order."""
    with tempfile.TemporaryDirectory() as folder:
        place, codes = pathlib.Path(folder), []
        (place / "small.json").write_text(GRAPH)
        on_one_core = {"cwd": place, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL,
                       "preexec_fn": lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})}
        busy = [subprocess.Popen(["sh", "-c", "while :; do :; done"], **on_one_core) for _ in range(3)]
        try:
            for _ in range(8):
                run = subprocess.Popen([os.path.abspath(binary), "open", "--no-browser", "--socket", "s"], **on_one_core)
                while not (place / "s").exists() and run.poll() is None:
                    pass
                run.send_signal(signal.SIGINT)
                try:
                    codes.append(run.wait(20))
                except subprocess.TimeoutExpired:
                    codes.append("goes on")
                    run.kill()
                    break
        finally:
            for b in busy:
                b.kill()
        s.check(codes == [0] * 8, "Ctrl-C ends a server that has just begun", codes)


def behind_a_socket(binary):
    with Workbench(binary, None, "--socket", "page.sock") as w:
        file = w.folder / "page.sock"

        def status(host="127.0.0.1:8000", token=w.token, at=file):
            c = http.client.HTTPConnection("127.0.0.1", w.port, timeout=20)
            c.sock = socket.socket(socket.AF_UNIX)
            c.sock.connect(str(at))
            c.request("GET", "/api/open", headers={"Host": host, "Authorization": "Bearer " + token})
            code = c.getresponse().status
            c.close()
            return code

        s.check(w.port == 8000 and status() == 200, "--socket: the file answers as port 8000 does", w.port)
        s.check(file.stat().st_mode & 0o777 == 0o600, "--socket: nobody else may connect", oct(file.stat().st_mode))
        s.check(status(token="0" * 64) == 401, "--socket: a wrong token")
        s.check(status(host="evil.example:8000") == 421, "--socket: another host's name")
        with Workbench(binary, w.folder, "--socket", "of 80.sock", "--port", "80") as usual:
            at = w.folder / "of 80.sock"
            s.check(status("127.0.0.1", usual.token, at) == 200 and status("127.0.0.1:8000", usual.token, at) == 421,
                    "port 80 is the one that browsers do not name")
        listed = os.popen("ss -Htlnp 2>/dev/null").read()
        s.check(f"pid={w.process.pid}," not in listed, "--socket: no port is listened on", listed)
        other = w.sluice("open", "--socket", "page.sock", "--no-browser")
        s.check(other.returncode != 0 and "another server listens there" in other.stderr,
                "--socket: one that is in use is refused", other.stderr)
        other = w.sluice("open", "--socket", "small.json", "--no-browser")
        s.check(other.returncode != 0 and "is there, and no socket" in other.stderr and
                (w.folder / "small.json").read_text() == GRAPH, "--socket: a file stays as it is", other.stderr)
        other = w.sluice("open", "--socket", "x" * 200, "--no-browser")
        s.check(other.returncode == 2 and "at most 107 bytes" in other.stderr, "--socket: a name that is too long",
                other.stderr)
        left = w.folder / "left.sock"
        old = socket.socket(socket.AF_UNIX)
        old.bind(str(left))
        old.close()  # without unlink, as after kill -9
        with Workbench(binary, w.folder, "--socket", "left.sock"):
            s.check(left.is_socket(), "--socket: what a killed server left is taken over")
        s.check(not left.exists(), "--socket: the file goes with the server")


def main(binary):
    with Workbench(binary) as w:
        (w.folder / "secret").mkdir()
        outside = w.folder.parent / (w.folder.name + "-outside.json")
        outside.write_text(GRAPH)
        (w.folder / "leads_out.json").symlink_to(outside)
        os.mkfifo(w.folder / "pipe.json")
        run = made_run(w.folder, "runs/a")
        evil = '<img src=x onerror=alert(1)>'
        made_run(w.folder, "runs/b", lr=0.1, name=evil)
        graph = json.loads(ask(w, "GET", "/api/graphs")[1])["graphs"][0]["id"]
        rows = json.loads(ask(w, "GET", "/api/runs")[1])["runs"]
        ids = {r["name"]: r["id"] for r in rows}
        digest = hashlib.sha256(GRAPH.encode()).hexdigest()
        text = {"graph": graph, "text": GRAPH}
        foreign = {"Origin": "http://example.org"}

        table(w, [
            ("the page needs no token", 200, "GET /", None, {"Authorization": None}),
            ("nor do its scripts", 200, "GET /page/main.js", None, {"Authorization": None}),
            ("a file that is none", 404, "GET /page/none.js"),
            ("a way out of the page's files", 404, "GET /page/..%2f..%2fserver.cpp"),
            ("another way out", 404, "GET /page/%2e%2e/api.h"),
            ("a right question", 200, "GET /api/open"),
            ("no token", 401, "GET /api/open", None, {"Authorization": None}),
            ("a wrong token", 401, "GET /api/open", None, {"Authorization": "Bearer " + "0" * 64}),
            ("a part of the token", 401, "GET /api/open", None,
             {"Authorization": "Bearer " + w.token[:32]}),
            ("a token in a cookie", 401, "GET /api/open", None,
             {"Authorization": None, "Cookie": "token=" + w.token}),
            ("a token in the address", 401, f"GET /api/open?token={w.token}", None,
             {"Authorization": None}),
            ("the events without a token", 401, "GET /api/events", None, {"Authorization": None}),
            ("another host's name, as DNS rebinding has it", 421, "GET /api/open", None,
             {"Host": f"evil.example:{w.port}"}),
            ("the right name with another port", 421, "GET /api/open", None, {"Host": "127.0.0.1:1"}),
            ("the page for another host", 421, "GET /", None, {"Host": "evil.example"}),
            ("no host", 421, "GET /api/open", None, {"Host": None}),
            ("localhost", 200, "GET /api/open", None, {"Host": f"localhost:{w.port}"}),
            ("a foreign origin", 403, "GET /api/open", None, foreign),
            ("a foreign origin that posts", 403, "POST /api/check", text, foreign),
            ("the page's own origin", 200, "GET /api/open", None,
             {"Origin": f"http://127.0.0.1:{w.port}"}),
            ("an origin of null", 403, "GET /api/open", None, {"Origin": "null"}),
            ("a preflight gets no permission", 405, "OPTIONS /api/check", None, {}),
            ("a form's content type", 415, "POST /api/check", text,
             {"Content_Type": "text/plain"}),
            ("no JSON", 400, "POST /api/check", b"{"),
            ("a list", 400, "POST /api/check", []),
            ("no text", 400, "POST /api/check", {"graph": graph}),
            ("a right check", 200, "POST /api/check", text),
            ("a graph that is not there", 404, "POST /api/check", {"graph": "0" * 16, "text": ""}),
            ("a path in the place of an id", 404, "GET /api/graph/..%2f..%2fetc%2fpasswd"),
            ("a run's id is no graph's", 404, f"GET /api/graph/{ids['runs/a']}"),
            ("saving without If-Match", 428, f"PUT /api/graph/{graph}", {"text": GRAPH}),
            ("saving over another text", 409, f"PUT /api/graph/{graph}", {"text": "x"},
             {"If_Match": "0" * 64}),
            ("saving", 200, f"PUT /api/graph/{graph}", {"text": GRAPH}, {"If_Match": digest}),
            ("a new graph", 200, "POST /api/graphs", {"beside": graph, "name": "new.json", "text": GRAPH}),
            ("one that is there", 409, "POST /api/graphs", {"beside": graph, "name": "new.json", "text": ""}),
            ("one in another folder", 422, "POST /api/graphs",
             {"beside": graph, "name": "../new.json", "text": ""}),
            ("one that hides", 422, "POST /api/graphs", {"beside": graph, "name": ".new.json", "text": ""}),
            ("a file that is no graph", 422, "POST /api/graphs", {"beside": graph, "name": ".bashrc", "text": ""}),
            ("an edit of what is no JSON", 422, "POST /api/edit",
             {"graph": graph, "text": "{", "edits": [{"op": "remove", "pointer": "/a"}]}),
            ("an edit that is none", 400, "POST /api/edit", {**text, "edits": [{"op": "shout"}]}),
            ("a pointer that is none", 400, "POST /api/edit",
             {**text, "edits": [{"op": "remove", "pointer": "a/b"}]}),
            ("removing what is not there", 422, "POST /api/edit",
             {**text, "edits": [{"op": "remove", "pointer": "/nodes/none"}]}),
            ("a position out of the text", 200, "POST /api/assist/complete",
             {**text, "at": {"line": 10**9, "character": 10**9}}),
            ("a position that is none", 400, "POST /api/assist/complete", {**text, "at": -1}),
            ("an unknown question", 404, "POST /api/assist/shout",
             {**text, "at": {"line": 0, "character": 0}}),
            ("an unknown type", 404, "GET /api/types/none"),
            ("an unknown job", 400, "POST /api/jobs", {"kind": "rm", "graph": graph}),
            ("a job that is none", 404, "DELETE /api/jobs/77"),
            ("a run that is none", 404, "GET /api/runs/0000000000000000"),
            ("a run", 200, f"GET /api/runs/{ids['runs/a']}"),
            ("a picture that is none", 404, f"GET /api/runs/{ids['runs/a']}/picture/0"),
            ("a volume outside of the run", 404,
             f"GET /api/runs/{ids['runs/a']}/volume?name=..%2f..%2fx.nii&which=pred"),
            ("notes", 200, f"PATCH /api/runs/{ids['runs/a']}", {"note": "well", "tags": ["t"]}),
            ("notes of another kind", 422, f"PATCH /api/runs/{ids['runs/a']}", {"tags": "t"}),
            ("notes that would be another file", 422, f"PATCH /api/runs/{ids['runs/a']}",
             {"graph.json": "x"}),
            ("chunks without a length", 411, "POST /api/check", b"",
             {"Transfer_Encoding": "chunked", "Content_Length": None}),
            ("100 MB", 413, "POST /api/check", b"x" * 1000, {"Content_Length": str(100 << 20)}),
            ("100 MB without a token, unread", 401, "POST /api/check", b"x" * 1000,
             {"Content_Length": str(100 << 20), "Authorization": None}),
            ("a header of 20 KB", 400, "GET /api/open", None, {"X_Long": "x" * 20000}),
            ("a name of 8 KB", 404, "GET /page/" + "a" * 8000, None, {"Authorization": None}),
            ("an id of 8 KB", 404, "GET /api/graph/" + "a" * 8000),
            ("a picture's number of 6 digits", 404, f"GET /api/runs/{ids['runs/a']}/picture/999999"),
            ("an address of 20 KB", 414, "GET /api/" + "x" * 20000),
            ("a method that is none", 400, "BREW /api/open"),
        ])

        names = [g["name"] for g in json.loads(ask(w, "GET", "/api/graphs")[1])["graphs"]]
        s.check(names == ["new.json", "small.json"], "links that lead out, and pipes, are no graphs", names)
        (w.folder / "latin.json").write_bytes(GRAPH.replace("small", "sm\u00e4ll").encode("latin-1"))
        latin = next(g["id"] for g in json.loads(ask(w, "GET", "/api/graphs")[1])["graphs"]
                     if g["name"] == "latin.json")
        table(w, [("a graph that is not UTF-8, which saving would change", 422, f"GET /api/graph/{latin}"),
                  ("a new graph with a blank and a quote in its name", 200, "POST /api/graphs",
                   {"beside": graph, "name": "it's new.json", "text": GRAPH}),
                  ("one with a line end in its name", 422, "POST /api/graphs",
                   {"beside": graph, "name": "a\nb.json", "text": GRAPH})])
        (w.folder / "small.json").rename(w.folder / "kept.json")
        (w.folder / "small.json").symlink_to(outside)
        table(w, [("a graph that became a link out of the folder", 403, f"GET /api/graph/{graph}")])
        (w.folder / "small.json").unlink()
        (w.folder / "kept.json").rename(w.folder / "small.json")
        with open(w.folder / "small.json", "r+") as f:
            f.truncate(17 << 20)
        table(w, [("a graph of 17 MiB", 403, f"GET /api/graph/{graph}")])
        (w.folder / "small.json").write_text(GRAPH)

        (run / "previews").mkdir()
        outside_png = w.folder.parent / (w.folder.name + ".png")
        outside_png.write_bytes(b"\x89PNG\r\n\x1a\nsecret")
        (run / "previews" / "index.jsonl").write_text(json.dumps(
            {"epoch": 0, "file": "../../../../" + outside_png.name}) + "\n")
        status, body, _ = ask(w, "GET", f"/api/runs/{ids['runs/a']}/picture/0")
        s.check(status in (403, 404) and b"secret" not in body, "a picture outside of the folder is not shown")

        _, page, headers = ask(w, "GET", "/", None, Authorization=None)
        policy = headers.get("Content-Security-Policy", "")
        s.check("default-src 'self'" in policy and "frame-ancestors 'none'" in policy, "the page has a policy")
        s.check(headers.get("X-Content-Type-Options") == "nosniff" and
                headers.get("Referrer-Policy") == "no-referrer" and
                headers.get("Cache-Control") == "no-store", "nosniff, no-referrer, no-store")
        s.check("Set-Cookie" not in headers and "Access-Control-Allow-Origin" not in headers,
                "no cookie is set and no other origin is allowed")
        s.check(w.token.encode() not in page, "the page does not hold the token")
        listed = os.popen(f"ss -Htln 'sport = :{w.port}' 2>/dev/null").read()
        own = [line.split()[3] for line in listed.splitlines()]
        s.check(own in ([f"127.0.0.1:{w.port}"], []), "127.0.0.1 alone is listened on", listed)
        title = next(r["title"] for r in rows if r["name"] == "runs/b")
        s.check(title == evil, "names with markup are data")

        got = raw(w, b"GARBAGE\r\n\r\n")
        s.check(got == b"" or b" 400 " in got[:20], "garbage is refused", got[:50])
        cut = socket.create_connection(("127.0.0.1", w.port))
        cut.sendall(f"POST /api/check HTTP/1.1\r\nHost: 127.0.0.1:{w.port}\r\nAuthorization: Bearer "
                    f"{w.token}\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{{".encode())
        cut.close()
        slow = [socket.create_connection(("127.0.0.1", w.port)) for _ in range(20)]
        for c in slow:
            c.sendall(b"GET / HTTP/1.1\r\nHost: 127")
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
        idle = [socket.create_connection(("127.0.0.1", w.port)) for _ in range(1000)]
        begin = time.time()
        status, _, _ = ask(w, "GET", "/api/open")
        s.check(status == 200, "an answer comes beside 1,000 idle connections and 20 half requests, "
                f"after {time.time() - begin:.2f} s", status)
        for c in slow + idle:
            c.close()

        with Workbench(binary, w.folder, "--port", str(w.port)) as second:
            s.check(second.port != w.port, "a port that is taken is not shared")
            table(second, [("the first server's token is not the second's", 401, "GET /api/open", None,
                            {"Authorization": "Bearer " + w.token})])
        outside.unlink()
        outside_png.unlink()

        # What a form asks for changes one line and leaves the comments.
        changed = json.loads(ask(w, "POST", "/api/edit", {**text, "edits": [
            {"op": "set", "pointer": "/nodes/flip/prob", "value": 0.25}]})[1])["text"]
        apart = [(a, b) for a, b in zip(GRAPH.split("\n"), changed.split("\n")) if a != b]
        s.check(len(apart) == 1 and "0.25" in apart[0][1] and "// mirror" in apart[0][1],
                "an edit changes one line, comments stay", apart)
        answer = json.loads(ask(w, "POST", "/api/edit", {**text, "edits": [
            {"op": "insert", "type": "rand_rotate90", "after": "/nodes/crop", "before": "/nodes/flip"}]})[1])
        checked = json.loads(ask(w, "POST", "/api/check", {"graph": graph, "text": answer["text"]})[1])
        s.check(checked["ok"] and '"in": "rotate90"' in answer["text"],
                "a node between two others reads one and is read by the other", checked["diagnostics"][:1])
        ports = """{ "parts": { "p": { "in": ["first", "second"], "out": "a", "nodes": {} } },
          "nodes": { "one": { "type": "scale_intensity", "in": "x" }, "use": { "part": "p", "in": "x" },
                     "none": { "type": "no such", "in": "x" } } }"""

        def connected(node, port):
            status, body = ask(w, "POST", "/api/edit", {"graph": graph, "text": ports, "edits": [
                {"op": "connect", "pointer": "/nodes/" + node, "from": "y", "port": port}]})[:2]
            return json.loads(body)["text"] if status == 200 else str(status)
        s.check('"in": "y"' in connected("one", "sample"), "a string's own port stays a string", connected("one", "sample"))
        s.check('"in": { "first": "x", "second": "y" }' in connected("use", "second"),
                "a string becomes an object with a second port", connected("use", "second"))
        s.check(connected("none", "a") == "422", "which port a string stands for must be known", connected("none", "a"))
        parts = """{ "parts": { "p": { "in": "x", "out": "a", "nodes": {
          "a": { "type": "scale_intensity", "in": "x" },
          "b": { "type": "concat_items", "in": { /* why */ "a": "a" } } } } },
          "nodes": { "made": { "type": "synthetic", "num_samples": 1, "spatial_size": [9, 9, 9] },
                     "use": { "part": "p", "in": "made" }, "batch": { "type": "batch", "in": "use" } } }"""
        for before in (None, "/nodes/batch"):
            how = {"op": "insert", "type": "rand_flip", "after": "/parts/p/nodes/a"} | ({"before": before} if before else {})
            made = json.loads(ask(w, "POST", "/api/edit", {"graph": graph, "text": parts, "edits": [how]})[1])["text"]
            s.check('"out": "flip"' in made and '"in": "a"' in made, "a node behind the last of a part is what leaves it", made)
            s.check(("/* why */ " + ('"a": "a"' if before else '"a": "flip"')) in made, "comments between names stay", made)
        compared = json.loads(ask(w, "POST", "/api/compare", {"runs": [ids["runs/a"], ids["runs/b"]]})[1])
        told = json.loads(w.sluice("compare", "runs/a", "runs/b", "--json").stdout)
        s.check(compared["settings"] == told["settings"] and compared["figures"] == told["figures"],
                "the page compares as `sluice compare` does")
        s.check([x["path"] for x in told["settings"]] == ["nodes.step.lr"], "settings that differ, and no others")

    with Workbench(binary) as w:
        graph = json.loads(ask(w, "GET", "/api/graphs")[1])["graphs"][0]["id"]
        start = lambda: ask(w, "POST", "/api/jobs",
                            {"kind": "run", "graph": graph, "set": ["run.epochs=100000"]})
        answers = [start() for _ in range(5)]
        s.check([a[0] for a in answers] == [200, 200, 200, 200, 429], "four jobs at once, and no fifth",
                [a[0] for a in answers])
        ask(w, "POST", "/api/jobs", {"kind": "run", "graph": graph, "set": "no list"})
        folders = sorted(f.name for f in (w.folder / "runs").iterdir())
        s.check(folders == [f"small-{n}" for n in range(1, 5)], "a run that is refused leaves no folder", folders)
        jobs = [json.loads(a[1]) for a in answers[:4]]
        for job in jobs[1:]:
            ask(w, "DELETE", f"/api/jobs/{job['id']}")
        run = w.folder / "runs" / "small-1"
        s.until(lambda: (run / "live.json").exists(), "a job is a run with a folder of its own")
        ended = lambda: all(json.loads(ask(w, "GET", f"/api/jobs/{j['id']}")[1])["code"] == 130 for j in jobs[1:])
        s.until(ended, "stopping is SIGINT")
        wrong, started = {"kind": "data_check", "graph": graph, "set": ["nodes.none.x=1"]}, 0
        end = time.time() + 120
        while started < 60 and time.time() < end:
            if ask(w, "POST", "/api/jobs", wrong)[0] == 200:
                started += 1
            else:
                time.sleep(0.05)
        known = [j["id"] for j in json.loads(ask(w, "GET", "/api/open")[1])["jobs"]]
        s.check(known == [jobs[0]["id"], *(str(n) for n in range(16, 65))],
                "the last 50 jobs are remembered, and those that work", known)
        s.check(ask(w, "GET", f"/api/jobs/{jobs[1]['id']}")[0] == 404, "older ones are forgotten")
        pid = json.loads((run / "live.json").read_text())["pid"]
        w.process.send_signal(signal.SIGINT)
        w.process.wait(20)
        before = json.loads((run / "live.json").read_text())["steps"]
        s.until(lambda: json.loads((run / "live.json").read_text())["steps"] > before,
                "a run goes on when the server ends")
        s.check(json.loads(w.sluice("runs", "--json").stdout)["runs"][0]["name"].startswith("small-"),
                "sluice runs lists it")
        os.kill(pid, signal.SIGINT)
        s.until(lambda: (run / "summary.json").exists(), "and ends when it is asked to")

    with Workbench(binary, None, "--read-only") as w:
        graph = json.loads(ask(w, "GET", "/api/graphs")[1])["graphs"][0]["id"]
        made_run(w.folder, "runs/a")
        run = json.loads(ask(w, "GET", "/api/runs")[1])["runs"][0]["id"]
        table(w, [
            ("read-only: a check", 200, "POST /api/check", {"graph": graph, "text": GRAPH}),
            ("read-only: saving", 403, f"PUT /api/graph/{graph}", {"text": GRAPH}, {"If_Match": "0" * 64}),
            ("read-only: a new graph", 403, "POST /api/graphs", {"beside": graph, "name": "n.json", "text": ""}),
            ("read-only: notes", 403, f"PATCH /api/runs/{run}", {"note": "x"}),
            ("read-only: a job", 403, "POST /api/jobs", {"kind": "run", "graph": graph}),
            ("read-only: stopping one", 403, "DELETE /api/jobs/1"),
        ])
    s.check(w.process.returncode == 0, "Ctrl-C ends the server with 0", w.process.returncode)
    behind_a_socket(binary)
    ended_while_it_begins(binary)
    opening_a_browser(os.path.abspath(binary))
    s.end()


if __name__ == "__main__":
    main(sys.argv[1])
