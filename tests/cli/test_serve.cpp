// `sluice serve`: right answers or clear errors, whatever clients do.
#include <cstdlib>

#include "tests/campaign.h"
#include "tests/cli/packaged.h"
#include "tests/dicom_series.h"

using nlohmann::json;

namespace {

// Starts the server, waits until it answers, runs `clients` with $url, and ends it.
shell::Result served(const Packaged& p, const std::string& options, const std::string& clients,
                     const std::string& package = "p", const std::string& environment = "") {
  return p.sh(environment + "$SLUICE serve " + package + " --port 0 " + options +
              " 2> log & pid=$!\n"
              "for i in $(seq 200); do grep -q 'on http' log && break; sleep 0.05; done\n"
              "url=$(sed -n 's/.* on //p' log | head -1)\n" +
              clients + "\nkill $pid; wait $pid; echo \"ended with $?\" >&2");
}

const std::string python = SLUICE_PYTHON;
const std::string client = python + " " SLUICE_SOURCE_DIR "/tests/cli/serve_client.py $url ";
const char* const ask =
    "import sys, urllib.request as u, urllib.error\n"
    "q = u.Request(sys.argv[1], data=open(sys.argv[2], 'rb').read() if "
    "len(sys.argv) > 2 else None, headers=dict(h.split('=', 1) for h in "
    "sys.argv[3:]))\n"
    "try: a = u.urlopen(q)\n"
    "except urllib.error.HTTPError as e: a = e\n"
    "allow = a.headers['Allow']\n"
    "sys.stdout.buffer.write(b'%d ' % a.status + (allow + ' ' if allow else '').encode() + "
    "a.read())\n";

}  // namespace

TEST_CASE("a served prediction is that of sluice run, among clients that misbehave") {
  const Packaged p;
  const bool is_long = campaign::at_length();
  const std::string counts = is_long ? "1000 10 50 5" : "60 4 6 1";
  const auto r = served(p, "--max-size 30M",
                        client +
                            "data/images/a0.nii 20 0 0 0 > /dev/null\n"
                            "grep VmRSS /proc/$pid/status > before\n" +
                            client + "data/images/a0.nii " + counts +
                            " > said.json\n"
                            "grep VmRSS /proc/$pid/status > after\n" +
                            python +
                            " -c \"import urllib.request as u; "
                            "print(u.urlopen('$url/metrics').read().decode())\" > metrics\n"
                            "mkdir one && cp data/images/a0.nii one/image.nii\n"
                            "$SLUICE run p --quiet --out own --set vars.images=one\n"
                            "sha256sum own/segmentations/*.nii.gz | cut -c1-64 > own.txt");
  INFO(r.err);
  INFO(p.folder.read("log"));
  CHECK(r.err.find("ended with 0") != std::string::npos);
  const json said = p.read_json("said.json");
  INFO(said.dump());
  const json& answers = said.at("answers");
  CHECK(answers.at("good 200") == (is_long ? 1000 : 60));
  CHECK(answers.at("damaged 400") == (is_long ? 50 : 6));
  CHECK(answers.at("cut left") == (is_long ? 10 : 4));
  CHECK(answers.value("large 413", 0) + answers.value("large closed", 0) == (is_long ? 5 : 1));
  REQUIRE(said.at("bodies").size() == 1);
  CHECK(said.at("bodies")[0].get<std::string>() + "\n" == p.folder.read("own.txt"));
  const std::string metrics = p.folder.read("metrics");
  CHECK(metrics.find("sluice_prediction_seconds_count " + std::string(is_long ? "1020" : "80")) !=
        std::string::npos);
  // "VmRSS:	  294412 kB"
  const auto kilobytes = [&](const char* name) { return std::stol(p.folder.read(name).substr(6)); };
  campaign::Cases requests("serve", 1, 1);
  requests.stand_for(1000 + 10 + 50 + 5);
  requests.note("resident before " + std::to_string(kilobytes("before")) + " kB, after " +
                std::to_string(kilobytes("after")) + " kB");
  CHECK(kilobytes("after") < kilobytes("before") + 64 * 1024);
}

TEST_CASE("a full queue refuses, and clients that come again are served") {
  const Packaged p;
  const auto r = served(p, "--queue 0",
                        client + "data/images/a0.nii 24 0 0 0 > said.json\n" + python +
                            " -c \"import urllib.request as u; "
                            "print(u.urlopen('$url/metrics').read().decode())\" > metrics");
  INFO(r.err);
  CHECK(p.read_json("said.json").at("answers") == json{{"good 200", 24}});
  CHECK(p.folder.read("metrics").find("status=\"429\"") != std::string::npos);
}

TEST_CASE("what a client has to show, and what it is told") {
  const Packaged p;
  p.folder.write("ask.py", ask);
  p.folder.write("text.nii", "no image");
  const std::string part =
      "--b\r\nContent-Disposition: form-data; name=\"image\"; filename=\"a.nii\"\r\n\r\nx\r\n";
  p.folder.write("two.txt", part + part + "--b--\r\n");
  const std::string do_ask = python + " ask.py ";
  const auto r =
      served(p, "",
             do_ask + "$url/health > health\n" + do_ask + "$url/predict text.nii > bad\n" + do_ask +
                 "$url/other > other\n" + do_ask + "$url/predict > method\n" + do_ask +
                 "$url/health text.nii > health2\n" + do_ask +
                 "$url/predict two.txt > two Content-Type="
                 "'multipart/form-data; boundary=b'");
  INFO(r.err);
  CHECK(p.folder.read("health") == "200 {\"status\":\"ok\",\"package\":\"p\",\"waiting\":0}");
  const std::string bad = p.folder.read("bad");
  INFO(bad);
  CHECK(bad.starts_with("400 "));
  CHECK(bad.find("image.nii: is no NIfTI file") != std::string::npos);
  CHECK(bad.find("/tmp") == std::string::npos);
  CHECK(p.folder.read("other") == "404 POST /predict, GET /health and GET /metrics are answered\n");
  CHECK(p.folder.read("method") == "405 POST /predict answers POST\n");
  CHECK(p.folder.read("health2") == "405 GET, HEAD /health answers GET, HEAD\n");
  CHECK(p.folder.read("two") == "400 the form has two files \"image\"\n");
  const std::string image = "$url/predict data/images/a0.nii";
  const auto t = p.sh(
      "export SLUICE_TOKEN=secret; $SLUICE serve p --port 0 --host 0.0.0.0 2> log & "
      "pid=$!\n"
      "for i in $(seq 200); do grep -q 'on http' log && break; sleep 0.05; done\n"
      "url=$(sed -n 's/.* on //p' log | head -1)\n" +
      do_ask + image + " > none\n" + do_ask + image + " Authorization='Bearer wrong' > wrong\n" +
      do_ask + image + " Authorization='Bearer secret' > right\nkill $pid; wait $pid");
  INFO(t.err);
  CHECK(p.folder.read("none").starts_with("401 "));
  CHECK(p.folder.read("wrong").starts_with("401 "));
  CHECK(p.folder.read("right").starts_with("200 "));
}

TEST_CASE("clients that send their headers byte by byte hold no thread for long") {
  const Packaged p;
  p.folder.write("slow.py", R"(
import socket, sys, time, urllib.parse, urllib.request
at = urllib.parse.urlparse(sys.argv[1])
slow = [socket.create_connection((at.hostname, at.port)) for _ in range(16)]
for s in slow:
    s.sendall(b"GET /health HTTP/1.1\r\nX: ")
begin, closed = time.monotonic(), set()
while len(closed) < len(slow) and time.monotonic() - begin < 60:
    time.sleep(0.1)
    for s in slow:
        try:
            s.sendall(b"x")
        except OSError:
            closed.add(s)
print(len(closed), urllib.request.urlopen(sys.argv[1] + "/health", timeout=60).status)
)");
  const auto r = served(p, "--queue 1 --timeout 1", python + " slow.py $url > said");
  INFO(r.err);
  CHECK(p.folder.read("said") == "16 200\n");
}

TEST_CASE("what a client is told leaves names whole, however the package is called") {
  const Packaged p;
  REQUIRE(p.sh("mv p e").code == 0);
  p.folder.write("ask.py", ask);
  const auto r = served(p, "",
                        "for n in a $(printf 'a%.0s' $(seq 300)); do " + python +
                            " -c \"import sys, zipfile as z; z.ZipFile(sys.argv[1], "
                            "'w').writestr(sys.argv[2], 'x')\" ${#n}.zip image/$n.dcm; done\n" +
                            python + " ask.py $url/health > health\n" + python +
                            " ask.py $url/predict 1.zip > bad\n" + python +
                            " ask.py $url/predict 300.zip > long",
                        "e/");
  INFO(r.err);
  CHECK(p.folder.read("health") == "200 {\"status\":\"ok\",\"package\":\"e\",\"waiting\":0}");
  const std::string bad = p.folder.read("bad");
  INFO(bad);
  CHECK(bad.starts_with("400 graph.json:"));
  CHECK(bad.find("image/a.dcm: is no DICOM file") != std::string::npos);
  CHECK(p.folder.read("long") == "400 a file's name in the archive is too long\n");
}

TEST_CASE("a server that cannot serve says why") {
  const Packaged p;
  p.refused("$SLUICE serve p --host 0.0.0.0", 2, "served with a token alone: set SLUICE_TOKEN");
  p.refused("$SLUICE serve run", 2, "run: is no package");
  p.refused("$SLUICE serve p --max-size 0", 2, "--max-size: Value 0 not in range 1 to 1e+18");
  const auto twice = served(p, "",
                            "timeout 20 $SLUICE serve p --port ${url##*:} 2> second; "
                            "echo $? >> second");
  INFO(twice.err);
  const std::string second = p.folder.read("second");
  INFO(second);
  CHECK(second.find("--port 0 takes any free one") != std::string::npos);
  CHECK(second.ends_with("\n4\n"));
  p.refused("printf x >> p/weights.safetensors; $SLUICE serve p", 3,
            "p/weights.safetensors: is not as it was packaged");
}

TEST_CASE("a zipped DICOM series is predicted as sluice run predicts its folder") {
  const Packaged p;
  const sluice::dicom_series::Series series(12);
  const std::string s = (series.folder / "s").string();
  p.folder.write("ask.py", ask);
  p.folder.write("pack.py",
                 "import sys, zipfile, pathlib as l\n"
                 "z = zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED)\n"
                 "for f in sorted(l.Path(sys.argv[2]).iterdir()): z.write(f, 'study/' + f.name)\n"
                 "for a in sys.argv[3:]: z.writestr(a, b'\\0' * 3000000)\n");
  p.folder.write("cut.py",
                 "import sys\nb = open(sys.argv[1], 'rb').read()\n"
                 "open(sys.argv[2], 'wb').write(b[:60] + bytes([b[60] ^ 1]) + b[61:])\n");
  p.folder.write("add.py",
                 "import sys, zipfile\nz = zipfile.ZipFile(sys.argv[1], 'a')\n"
                 "for n in 'readme.txt', 'viewer/readme.txt': z.writestr(n, n)\n"
                 "for n in 'DICOMDIR', 'viewer/DICOMDIR': z.writestr(n, bytes(128) + b'DICM' + "
                 "bytes(99))\n");
  const std::string do_ask = python + " ask.py ";
  const auto r =
      served(p, "--max-size 2M",
             python + " pack.py s.zip " + s + "; " + python + " cut.py s.zip bad.zip\n" + python +
                 " pack.py big.zip " + s + " zeros; mkdir empty; " + python +
                 " pack.py none.zip empty\n" + do_ask + "$url/predict s.zip > answer\n" + python +
                 " add.py s.zip; " + do_ask + "$url/predict s.zip > among\n" + do_ask +
                 "$url/predict bad.zip > bad\n" + do_ask + "$url/predict big.zip > big\n" + do_ask +
                 "$url/predict none.zip > none\n" + "mkdir all; cp -r " + s + " all/image\n" +
                 "$SLUICE run p --quiet --out own --set 'nodes.cases={\"type\": \"file_patterns\", "
                 "\"root\": \"all\", \"patterns\": {\"image\": \"*/\"}}'\n"
                 "printf '200 ' | cat - own/segmentations/image_seg.nii.gz > own.txt");
  INFO(r.err);
  INFO(p.folder.read("log"));
  CHECK(p.folder.read("answer").starts_with("200 "));
  CHECK(p.folder.read("answer") == p.folder.read("own.txt"));
  CHECK(p.folder.read("among") == p.folder.read("answer"));
  const std::string bad = p.folder.read("bad");
  INFO(bad);
  CHECK(bad.starts_with("400 the upload: \"study/"));
  CHECK(bad.find("is damaged") != std::string::npos);
  CHECK(p.folder.read("big").starts_with("413 the archive holds more than 2000000 bytes"));
  CHECK(p.folder.read("none") == "400 the archive is empty\n");
}

namespace {

// Uploads whose length no header says, or that come byte by byte: status and text of the answers,
// and whether the connection was closed then.
const char* const odd_uploads = R"(
import gzip, socket, struct, sys, time, urllib.parse
where = urllib.parse.urlparse(sys.argv[1])
def answer(s):
    said = b''
    try:
        while part := s.recv(4096): said += part
        closed = True
    except OSError: closed = False
    head, _, text = said.partition(b'\r\n\r\n')
    return head.split(b' ')[1].decode() + ' ' + text.decode().strip() + (' closed' if closed else '')
def ask(header, pieces, wait=0):
    with socket.create_connection((where.hostname, where.port), timeout=20) as s:
        try:
            s.sendall(b'POST /predict HTTP/1.1\r\nHost: x\r\n' + header + b'\r\n\r\n')
            for p in pieces:
                s.sendall(p)
                time.sleep(wait)
        except OSError: pass
        print(answer(s), flush=True)
kind = sys.argv[2]
image = open('data/images/a0.nii', 'rb').read()
chunk = b'10000\r\n' + bytes(1 << 16) + b'\r\n'
packed = gzip.compress(bytes(3 << 20))
if kind == 'chunks': ask(b'Transfer-Encoding: chunked', [chunk] * 40)
if kind == 'packed': ask(b'Content-Encoding: gzip\r\nContent-Length: %d' % len(packed), [packed])
if kind in ('header', 'bytes'):  # 4,000,000 bytes of float32, of which few are there; uint8
    of = bytearray(image[:352])
    struct.pack_into('<8h', of, 40, 3, 100, 100, 100, 1, 1, 1, 1)
    if kind == 'bytes': struct.pack_into('<2h', of, 70, 2, 8)
    packed = gzip.compress(bytes(of) + bytes(1000000 if kind == 'bytes' else 99))
    ask(b'Content-Length: %d' % len(packed), [packed])
if kind == 'empty': ask(b'Content-Length: 0', [])
if kind == 'chunks of nothing': ask(b'Transfer-Encoding: chunked', [b'0\r\n\r\n'])
if kind == 'slow':
    ask(b'Content-Length: %d' % len(image), [image[i:i + 1] for i in range(40)], 0.1)
if kind == 'declared': ask(b'Content-Length: 99999999', [image[:40]])
if kind == 'whole': ask(b'Connection: close\r\nContent-Length: %d' % len(image), [image])
)";

}  // namespace

TEST_CASE("--max-size holds for chunks and for what is packed, --timeout for the upload") {
  const Packaged p;
  p.folder.write("odd.py", odd_uploads);
  const std::string odd = python + " odd.py $url ";
  const auto r = served(p, "--max-size 2M",
                        odd + "chunks > chunks\n" + odd + "packed > packed\ntimeout 10 " + odd +
                            "declared > declared\n" +  // and never sent
                            odd + "header > header\n" + odd + "bytes > bytes\n" + odd +
                            "empty > empty\n" + odd + "'chunks of nothing' > nothing\n" + python +
                            " -c \"import urllib.request as u; "
                            "print(u.urlopen('$url/metrics').read().decode())\" > metrics");
  INFO(r.err);
  for (const char* name : {"chunks", "packed", "declared"})
    CHECK_MESSAGE(p.folder.read(name).starts_with("413 the upload is larger than 2000000 bytes"),
                  name, ": ", p.folder.read(name));
  for (const char* name : {"header", "bytes"})
    CHECK_MESSAGE(p.folder.read(name).starts_with("413 the upload's voxels take more than 2000000"),
                  name, ": ", p.folder.read(name));
  for (const char* name : {"empty", "nothing"})
    CHECK_MESSAGE(p.folder.read(name).starts_with("400 the upload is empty"), name, ": ",
                  p.folder.read(name));
  CHECK(p.folder.read("metrics").find("total{status=\"413\"} 5\n") != std::string::npos);
  served(p, "--timeout 1", odd + "slow > slow");
  CHECK_MESSAGE(p.folder.read("slow") == "408 the upload is not there in 1 s closed\n",
                p.folder.read("slow"));
}

namespace {

// Requests whose bodies come byte by byte, all at once: what each was answered, in their order.
// "||" ends a line.
const char* const drip = R"(
import select, socket, sys, time, urllib.parse
where = urllib.parse.urlparse(sys.argv[1])
open_, said = {}, {}
for i, request in enumerate(sys.argv[2:]):
    s = socket.create_connection((where.hostname, where.port))
    s.sendall(request.replace('||', '\r\n').encode() + b'\r\nHost: x\r\n\r\nx')
    open_[s], said[i] = i, 'no answer'
end = time.monotonic() + 90
while open_ and time.monotonic() < end:
    there = select.select(list(open_), [], [], 0.1)[0]
    for s in list(open_):
        try:
            if s not in there: s.sendall(b'x')
            else:
                head, _, text = s.makefile('rb').read().decode().partition('\r\n\r\n')
                said[open_.pop(s)] = head.split(' ')[1] + ' ' + text.strip()
        except OSError as e: said[open_.pop(s)] = str(e)
for i in sorted(said): print(said[i])
)";

}  // namespace

TEST_CASE("what is refused is refused before its body has come") {
  const Packaged p;
  p.folder.write("drip.py", drip);
  const std::string other = "404 POST /predict, GET /health and GET /metrics are answered";
  const std::string number = "400 Content-Length is no number of bytes";
  const std::pair<std::string, std::string> requests[] = {
      {"PUT /x HTTP/1.1||Content-Length: 1000000", other},
      {"POST /x HTTP/1.1||Transfer-Encoding: chunked", other},
      {"PUT /predict HTTP/1.1||Content-Length: 1000000", "405 /predict answers POST"},
      {"POST /health HTTP/1.1||Content-Length: 1000000", "405 /health answers GET, HEAD"},
      {"POST /predict HTTP/1.1", "411 Content-Length is missing"},
      {"POST /predict HTTP/1.1||Content-Length: 1x", number},
      {"POST /predict HTTP/1.1||Content-Length: -1", number},
      {"POST /predict HTTP/1.1||Content-Length: 1000||Content-Length: 2000", number},
      {"POST /predict HTTP/1.1||Content-Length: 99999999999999999999",
       "413 the upload is larger than 1000000000 bytes"},
      {"POST /predict HTTP/1.1||Transfer-Encoding: gzip, chunked",
       "501 Transfer-Encoding: only \"chunked\" is read"},
      {"POST /predict HTTP/1.1||Content-Length: 1000||Content-Encoding: zstd",
       "415 Content-Encoding: only one of gzip, deflate, br and identity is read"}};
  std::string all, expected;
  for (const auto& [request, answer] : requests) {
    all += " '" + request + "'";
    expected += answer + "\n";
  }
  const auto r = served(p, "--queue 0",
                        python + " drip.py $url" + all + " > said\n" + python +
                            " -c \"import urllib.request as u; "
                            "print(u.urlopen('$url/metrics').read().decode())\" > metrics");
  INFO(r.err);
  CHECK(p.folder.read("said") == expected);
  const std::string metrics = p.folder.read("metrics");
  INFO(metrics);
  CHECK(metrics.find("status=\"404\"") == std::string::npos);
  for (const std::string count : {"\"400\"} 3\n", "\"411\"} 1\n", "\"413\"} 1\n", "\"415\"} 1\n",
                                  "\"501\"} 1\n", "sluice_request_seconds_count 7\n"})
    CHECK_MESSAGE(metrics.find(count) != std::string::npos, count);
  const std::string strange = " 'POST /predict HTTP/1.1||Content-Length: 1000000'";
  served(p, "--queue 0",
         python + " drip.py $url" + strange + strange + strange + strange + strange + " > said",
         "p", "SLUICE_TOKEN=secret ");
  const std::string token = "401 Authorization: Bearer TOKEN is missing or wrong\n";
  CHECK(p.folder.read("said") == token + token + token + token + token);
}

TEST_CASE(
    "an upload that comes byte by byte leaves its place to others and does not hold the end") {
  const Packaged p;
  p.folder.write("drip.py", drip);
  p.folder.write("ask.py", ask);
  const std::string slow =
      python + " drip.py $url 'POST /predict HTTP/1.1||Content-Length: 1000000' > ";
  const std::string until_it_waits =
      "for i in $(seq 600); do " + python +
      " ask.py $url/health | grep -q 'waiting\":1' && break; sleep 0.1; done\n";
  const auto r = served(p, "--queue 0",
                        slow + "slow & client=$!\n" + until_it_waits + client +
                            "data/images/a0.nii 1 0 0 0 > said.json\nwait $client\n" + slow +
                            "last & client=$!\n" + until_it_waits + "kill $pid; wait $client\n");
  INFO(r.err);
  CHECK_MESSAGE(p.folder.read("slow").starts_with("408 the upload comes too slowly: "),
                p.folder.read("slow"));
  CHECK(p.read_json("said.json").at("answers") == json{{"good 200", 1}});
  CHECK(p.folder.read("last") == "503 the server is ending\n");
}

TEST_CASE("clients that come at once are all heard") {
  const Packaged p;
  p.folder.write("burst.py", R"(
import collections, os, signal, socket, sys, urllib.parse
at, pid = urllib.parse.urlparse(sys.argv[1]), int(sys.argv[2])
os.kill(pid, signal.SIGSTOP)
try: all_ = [socket.create_connection((at.hostname, at.port), timeout=20) for _ in range(50)]
finally: os.kill(pid, signal.SIGCONT)
for s in all_:
    s.settimeout(60)
    s.sendall(b'GET /health HTTP/1.1\r\nHost: x\r\n\r\n')
print(collections.Counter(s.makefile('rb').read()[9:12].decode() for s in all_))
)");
  const auto r = served(p, "", python + " burst.py $url $pid > said");
  INFO(r.err);
  CHECK(p.folder.read("said") == "Counter({'200': 50})\n");
}

TEST_CASE("a disk that is full is no fault of the upload") {
  const Packaged p;
  p.folder.write("odd.py", odd_uploads);
  const auto r = p.sh(
      "mkdir full; export TMPDIR=$PWD/full FILE_CALLS_UNDER=$(realpath full) FILE_CALLS_ROOM=4000\n"
      "LD_PRELOAD=" SLUICE_BINARY_DIR
      "/fake/libfile_calls.so $SLUICE serve p --port 0 2> log & "
      "pid=$!\n"
      "for i in $(seq 200); do grep -q 'on http' log && break; sleep 0.05; done\n"
      "url=$(sed -n 's/.* on //p' log | head -1)\n" +
      python + " odd.py $url whole > said\nkill $pid; wait $pid");
  INFO(r.err);
  CHECK_MESSAGE(p.folder.read("said").starts_with("507 there is no room for the upload"),
                p.folder.read("said"));
}
