#include "tools/web/guard.h"

#include <openssl/crypto.h>
#include <sys/random.h>

#include <algorithm>
#include <cstdlib>

#include "engine/base/error.h"

namespace sluice::web {

constexpr std::size_t largest_body = 16u << 20;

std::string new_token() {
  unsigned char bytes[32];
  if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
    throw Error(Exit::io, "the system gives no random numbers");
  std::string token;
  for (const unsigned char byte : bytes)
    for (const int nibble : {byte >> 4, byte & 15}) token += "0123456789abcdef"[nibble];
  return token;
}

void Guard::serve_on(int port) {
  const std::string end = port == 80 ? "" : ":" + std::to_string(port);  // as browsers name it
  hosts_[0] = "127.0.0.1" + end;
  hosts_[1] = "localhost" + end;
}

Verdict Guard::look(const httplib::Request& q) const {
  const std::string host = q.get_header_value("Host");
  if (q.get_header_value_count("Host") != 1 || (host != hosts_[0] && host != hosts_[1]))
    return {421, "this server is " + hosts_[0] + " alone"};
  const std::string origin = q.get_header_value("Origin");
  if (q.has_header("Origin") && origin != "http://" + hosts_[0] && origin != "http://" + hosts_[1])
    return {403, "a page of another origin asks"};
  const bool reads = q.method == "GET" || q.method == "HEAD";
  if (!q.path.starts_with("/api/")) return reads ? Verdict{} : Verdict{405, "only GET"};
  const std::string given = q.get_header_value("Authorization"), right = "Bearer " + token_;
  if (given.size() != right.size() || CRYPTO_memcmp(given.data(), right.data(), right.size()) != 0)
    return {401, "Authorization: Bearer TOKEN is missing or wrong; open the printed address"};
  if (reads) return {};
  if (q.method == "POST" || q.method == "PUT" || q.method == "PATCH") {
    if (!q.get_header_value("Content-Type").starts_with("application/json"))
      return {415, "expected application/json"};
    // Nothing without a length: the library reads such bodies whole, however long they are.
    if (q.has_header("Transfer-Encoding") || !q.has_header("Content-Length"))
      return {411, "Content-Length is missing"};
    const std::string length = q.get_header_value("Content-Length");
    if (length.size() > 8 || std::strtoull(length.c_str(), nullptr, 10) > largest_body)
      return {413, "more than 16 MiB"};
  } else if (q.method != "DELETE") {
    return {405, "no such method"};
  }
  // What is asked by POST and changes nothing.
  static constexpr const char* looks[] = {"/api/check", "/api/picture", "/api/assist/", "/api/edit",
                                          "/api/node",  "/api/compare", "/api/curves"};
  const bool harmless =
      q.method == "POST" && std::any_of(std::begin(looks), std::end(looks),
                                        [&](const char* path) { return q.path.starts_with(path); });
  if (read_only_ && !harmless) return {403, "--read-only: nothing is written or started"};
  return {};
}

httplib::Headers safe_headers() {
  return {{"Content-Security-Policy",
           "default-src 'self'; img-src 'self' blob:; style-src 'self' 'unsafe-inline'; "
           "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"},
          {"X-Content-Type-Options", "nosniff"},
          {"Referrer-Policy", "no-referrer"},
          {"Cross-Origin-Resource-Policy", "same-origin"},
          {"Cache-Control", "no-store"}};
}

}  // namespace sluice::web
