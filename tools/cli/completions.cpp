// `sluice completions`: a few lines for each shell, which ask the binary what a word may become.
#include <iostream>

#include "tools/cli/cli.h"
#include "tools/cli/shape.h"

namespace sluice::cli {
namespace {

constexpr const char* bash_script =
    R"(# bash completion for sluice: source <(sluice completions bash)
_sluice() {
  local line
  COMPREPLY=()
  while IFS= read -r line; do
    case $line in
      :nospace) compopt -o nospace 2>/dev/null ;;
      :filenames) compopt -o filenames 2>/dev/null ;;
      *) COMPREPLY+=("${line%%$'\t'*}") ;;
    esac
  done < <("${COMP_WORDS[0]/#\~/$HOME}" complete bash "$COMP_CWORD" "${COMP_WORDS[@]}" 2>/dev/null)
}
complete -F _sluice sluice
)";

constexpr const char* zsh_script = R"(#compdef sluice
# zsh completion for sluice: source <(sluice completions zsh), or save it as _sluice in $fpath
_sluice() {
  local line space=' '
  local -a values shown
  while IFS= read -r line; do
    case $line in
      :nospace) space='' ;;
      :*) ;;
      *) values+=("${line%%$'\t'*}"); shown+=("${line/$'\t'/  -- }") ;;
    esac
  done < <("${words[1]/#\~/$HOME}" complete zsh $((CURRENT - 1)) "${words[@]}" 2>/dev/null)
  compadd -S "$space" -d shown -- "${values[@]}"
}
if [ "${funcstack[1]}" = _sluice ]; then _sluice "$@"; else compdef _sluice sluice; fi
)";

constexpr const char* fish_script =
    R"(# fish completion for sluice: sluice completions fish | source
function __sluice_complete
    set -l current (commandline -ct)
    set -l words (commandline -opc) "$current"
    $words[1] complete fish (math (count $words) - 1) $words 2>/dev/null | string match -v ':*'
end
complete -c sluice -f -a '(__sluice_complete)'
)";

}  // namespace

int completions(const std::string& shell) {
  if (shell == "bash") {
    std::cout << bash_script;
  } else if (shell == "zsh") {
    std::cout << zsh_script;
  } else if (shell == "fish") {
    std::cout << fish_script;
  } else {
    const std::string hint = did_you_mean(shell, {"bash", "zsh", "fish"});
    print_error("there are completions for bash, zsh and fish, not for " + shell +
                (hint.empty() ? "" : "; " + hint));
    return code(Exit::usage);
  }
  return code(Exit::done);
}

}  // namespace sluice::cli
