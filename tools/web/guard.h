// Who may ask: whoever holds the token, from a page of this server's own.
//
// The token is in the address's fragment, which no log and no Referer sees. There is no cookie:
// cookies know no ports, so another user's server on this machine would be sent it; and without one
// a foreign page cannot act in a user's name.
#pragma once

#include <string>

#include "tools/web/http.h"

namespace sluice::web {

std::string new_token();  // 256 bits of getrandom, as hex

// The first reason to refuse a request; status 0: none. The body has not been read.
struct Verdict {
  int status = 0;
  std::string why;
};
class Guard {
 public:
  Guard(std::string token, bool read_only) : token_(std::move(token)), read_only_(read_only) {}
  void serve_on(int port);
  Verdict look(const httplib::Request& q) const;
  const std::string& token() const { return token_; }
  bool read_only() const { return read_only_; }

 private:
  const std::string token_;
  const bool read_only_;
  std::string hosts_[2];
};

// What every answer carries.
httplib::Headers safe_headers();

}  // namespace sluice::web
