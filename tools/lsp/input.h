// Messages as they come in: "Content-Length: 41\r\n\r\n{...}".
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace sluice::lsp {

// Where bytes come from.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual std::size_t read(char* to, std::size_t most) = 0;  // waits for one at least; 0: the end
  virtual bool waiting() = 0;                                // whether read() would not wait
};

class FileStream final : public Stream {
 public:
  explicit FileStream(int descriptor) : descriptor_(descriptor) {}
  std::size_t read(char* to, std::size_t most) override;
  bool waiting() override;

 private:
  int descriptor_;
};

class Input {
 public:
  explicit Input(Stream& stream) : stream_(stream) {}
  // The next message's text. Nothing at the end, or where the headers are none: then fault() says
  // why. `wait`: false: nothing too where none has come yet.
  std::optional<std::string> next(bool wait);
  const std::string& fault() const { return fault_; }

 private:
  std::optional<std::string> take();
  Stream& stream_;
  std::string buffer_, fault_;
  std::size_t from_ = 0;  // what is before it has been taken
  bool ended_ = false;
};

}  // namespace sluice::lsp
