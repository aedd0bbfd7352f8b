#!/usr/bin/env bash
# test_completion.sh BALLAST - what the shells complete, and the manual page.
#
# bash is asked what it would complete; zsh, fish and mandoc check their files where they exist.
set -euo pipefail

program=$(realpath -- "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
touch study.json
failures=0

for shell in bash fish zsh; do "$program" completion "$shell" > "completion.$shell"; done
"$program" man > ballast.1
# shellcheck disable=SC1091
. ./completion.bash

# $1: words typed, the last one unfinished; $2: what must be offered, sorted; "*": and more.
offers() {
    local got want=$2
    read -r -a COMP_WORDS <<< "$1"
    [[ $1 == *' ' ]] && COMP_WORDS+=('')
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _ballast || true
    got=$(printf '%s\n' "${COMPREPLY[@]}" | sort | tr '\n' ' ')
    got=${got% }
    if [[ $want == *' *' ]]; then
        for word in ${want%\*}; do
            [[ " $got " == *" $word "* ]] || { echo "'$1' offers '$got', not '$word'"; failures=1; }
        done
    elif [[ $got != "$want" ]]; then
        echo "'$1' offers '$got', want '$want'"
        failures=1
    fi
}
offers 'ballast exp' 'explain export'
offers 'ballast export --fo' '--format'
offers 'ballast export --format ' 'csv json markdown'
offers 'ballast export --format m' 'markdown'
offers 'ballast run --f' '--fidelity'
offers 'ballast run st' 'study.json'
offers 'ballast run --db st' 'study.json'
offers 'ballast dataset im' 'import'
offers 'ballast model ' 'import show'
offers 'ballast export --se' ''
offers 'ballast run --se' '--set'
offers 'ballast ' 'bench check run version *'

# Every command of the overview is completed and has its part of the manual.
"$program" --help | awk '/^  [a-z]/ { print $1 }' > commands
while read -r name; do
    offers "ballast $name" "$name *"
    grep -q "use_subcommand -f -a $name " completion.fish || { echo "fish lacks $name"; failures=1; }
    grep -q "^      '$name:" completion.zsh || { echo "zsh lacks $name"; failures=1; }
    grep -q "^\.Ss ballast $name" ballast.1 || { echo "the manual lacks $name"; failures=1; }
done < commands
[[ -s commands ]] || { echo "no commands in --help"; failures=1; }

if command -v zsh > /dev/null; then
    zsh -f -c 'autoload -U compinit && compinit -D -u && source ./completion.zsh && (( $+functions[_ballast] ))' ||
        { echo "zsh refuses its completion"; failures=1; }
fi
if command -v fish > /dev/null; then
    got=$(HOME=$work XDG_CONFIG_HOME=$work fish -N -c "source ./completion.fish; complete -C 'ballast export --format '" |
        cut -f 1 | sort | tr '\n' ' ')
    [[ $got == 'csv json markdown ' ]] || { echo "fish offers '$got'"; failures=1; }
fi
if command -v mandoc > /dev/null; then
    mandoc -T lint -W error ballast.1 || { echo "mandoc refuses the manual"; failures=1; }
fi
exit "$failures"
