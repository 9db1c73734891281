// HTTP for `sluice serve`: one request a connection, and each part of it has to come in time.
//
// Headers have to be whole in 10 s. A body has 20 s and a second more for each 500 bytes of it that
// came. Neither may take longer than the server's own limit. So clients that send little hold no
// thread for long. A signal that ends the process ends reading too.
#pragma once

// As Debian's library was compiled.
#define CPPHTTPLIB_OPENSSL_SUPPORT
#define CPPHTTPLIB_ZLIB_SUPPORT
#define CPPHTTPLIB_BROTLI_SUPPORT
#include <httplib.h>

#include <string>

namespace sluice {

// What a client is told when it gets no segmentation.
struct HttpRefusal {
  int status;
  std::string why;
};

class HttpServer final : public httplib::Server {
 public:
  double most_s = 600;

  // How many connections wait until they are accepted; the library asks for five.
  void set_backlog(int n);

 private:
  // A body that comes too slowly, or while the process ends, is an HttpRefusal: it is thrown out of
  // the content reader that the library gives to a handler.
  bool process_and_close_socket(int socket) override;
};

}  // namespace sluice
