#include "engine/state/sample.h"

#include "engine/base/error.h"

namespace sluice {

const Field* Sample::find(std::string_view key) const {
  for (const auto& [name_, field] : fields_)
    if (name_ == key) return &field;
  return nullptr;
}

const Field& Sample::at(std::string_view key) const {
  if (const Field* f = find(key)) return *f;
  std::string there;
  for (const auto& [name_, field] : fields_)
    there += (there.empty() ? "\"" : ", \"") + name_ + "\"";
  throw DataError("no field \"" + std::string(key) + "\"; the sample has " +
                  (there.empty() ? "none" : there));
}

void Sample::set(std::string_view key, Field field) {
  for (auto& [name_, old] : fields_)
    if (name_ == key) {
      old = std::move(field);
      return;
    }
  fields_.emplace_back(std::string(key), std::move(field));
}

void Sample::erase(std::string_view key) {
  std::erase_if(fields_, [&](const auto& f) { return f.first == key; });
}

MetaPtr with_affine(const Meta& meta, const Affine& affine, Applied applied) {
  auto m = std::make_shared<Meta>(meta);
  m->affine = affine;
  m->history.push_back(std::move(applied));
  return m;
}

std::string sample_name(const Sample& sample) { return sample.name; }

std::string sample_file(const Sample& sample) {
  for (const auto& [name, field] : sample.fields())
    if (!field.geometry().path.empty()) return field.geometry().path;
  return "";
}

std::size_t sample_bytes(const Sample& sample) {
  std::size_t n = 0;
  for (const auto& [name, field] : sample.fields())
    if (field.tensor.defined() && !field.pending) n += field.tensor.nbytes();  // else not its own
  return n;
}

}  // namespace sluice
