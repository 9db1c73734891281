// Type name -> Spec and factory. One static `Register<T>` in a node's file adds it.
//
// Registration from a static archive would be dropped by the linker, so nodes are a CMake OBJECT
// library, and a test holds the number of entries against the number of files.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/graph/catalogue.h"
#include "engine/run/node.h"

namespace sluice {

class Network;  // engine/state/resource.h

class Registry {
 public:
  using MakeNode = std::unique_ptr<Node> (*)(const Spec&, const Json& params);
  using MakeNetwork = std::shared_ptr<Network> (*)(const Spec&, const Json& params);

  static Registry& global();
  void add(Spec spec, MakeNode node, MakeNetwork network, std::string_view file);
  const Catalogue& catalogue() const { return catalogue_; }
  // Parameters were checked before; the type exists.
  std::unique_ptr<Node> make_node(const std::string& type, const Json& params) const;
  std::shared_ptr<Network> make_network(const std::string& type, const Json& params) const;

 private:
  struct Entry {
    std::string type;
    MakeNode node;
    MakeNetwork network;
  };
  const Entry& entry(const std::string& type) const;
  Catalogue catalogue_;
  std::vector<Entry> entries_;
};

// `static const Register<RandFlip> registered;` in the node's file, where RandFlip has
// `static Spec spec()` and a member `Params p`. A network has spec() from Spec::network and a
// constructor that takes its Params.
template <class T>
struct Register {
  explicit Register(const char* file = __builtin_FILE()) {
    if constexpr (std::is_base_of_v<Node, T>) {
      Registry::global().add(
          spec(),
          [](const Spec& spec, const Json& params) -> std::unique_ptr<Node> {
            auto node = std::make_unique<T>();
            if constexpr (requires { node->p; }) spec.apply(&node->p, params);
            return node;
          },
          nullptr, file);
    } else {
      Registry::global().add(
          spec(), nullptr,
          [](const Spec& spec, const Json& params) -> std::shared_ptr<Network> {
            typename T::Params p;
            spec.apply(&p, params);
            return std::make_shared<T>(p);
          },
          file);
    }
  }

 private:
  // With the defaults of its own parameters, also of those that a base declares.
  static Spec spec() {
    Spec s = T::spec();
    if constexpr (!std::is_base_of_v<Node, T>) {
      const typename T::Params made{};
      s.defaults_from(&made);
    } else if constexpr (requires(T node) { node.p; }) {
      const std::remove_cvref_t<decltype(std::declval<T&>().p)> made{};
      s.defaults_from(&made);
    }
    return s;
  }
};

}  // namespace sluice
