# outputs.awk - compares the output that a page shows below its commands with what they print now.
#
#     awk -v page=PAGE [-v update=1] -f outputs.awk LIST PAGE
#
# LIST has a line for each command: the page's line where the command ends, and the file of its output.
# Every line shown must stand in the output, in its order, with the same words; figures, bars and widths of
# columns may differ. A page shortens: a line "..." leaves lines out, "..." at the end of a line the rest of
# it. A block without commands goes on with the output of the last one, if its first line is there.
#
# Prints what is not found and exits 1; with update, prints the page with today's figures on stdout instead.

# The words of a line: figures are N, runs of spaces, bars and rules one sign.
function words(line) {
    gsub(/[0-9.]+e[-+]?[0-9]+/, "N", line)
    gsub(/[0-9]+(,[0-9]+)*(\.[0-9]+)?/, "N", line)
    gsub(/N(, N|,N)*/, "N", line)
    gsub(/[+-]N/, "N", line)
    gsub(/##*/, "", line)
    gsub(/--*/, "-", line)
    gsub(/  */, " ", line)
    sub(/^ /, "", line)
    sub(/ $/, "", line)
    return line
}
function is_cut(line) { return line ~ /[^.]\.\.\.$/ }

# The part of `line` with the words of `shown`, as long as it goes; "" if none.
function beginning(line, shown, length_now) {
    for (length_now = length(line); length_now > 0; length_now--)
        if (words(substr(line, 1, length_now)) == shown) return substr(line, 1, length_now)
    return ""
}

# Today's form of the shown `line` in an output line; "" if its words are others.
function today(line, of, kept, spaces) {
    if (!is_cut(line)) return words(of) == words(line) ? of : ""
    kept = spaces = substr(line, 1, length(line) - 3)
    sub(/ *$/, "", kept)
    spaces = substr(spaces, length(kept) + 1)
    kept = beginning(of, words(kept))
    sub(/ *$/, "", kept)
    return kept == "" ? "" : kept spaces "..."
}

# Finds `line` in the output from place `at` on; today's line in `found`. Of lines with the same words it is the one
# that begins with the same signs, as rows of a table do, else the first.
function find(line, i, start, form, first) {
    start = line
    sub(/[,|].*|.  .*/, "", start)
    first = 0
    for (i = at; i <= count; i++) {
        form = today(line, output[i])
        if (form == "") continue
        if (first == 0) {
            first = i
            found = form
        }
        if (form == line || index(output[i], start) == 1) {
            first = i
            found = form
            break
        }
    }
    if (first == 0) return 0
    at = first + 1
    sub(/ +$/, "", found)
    return 1
}

function read_output(file, line) {
    count = 0
    at = 1
    while ((getline line < file) > 0) output[++count] = line
    close(file)
}

function say(text) { if (update) print text }

FILENAME == ARGV[1] { file_after[$1] = $2; next } # FNR == NR would take the page for an empty LIST
/^[ \t]*```/ {
    inside = !inside
    fresh = inside
    follows = 0
    say($0)
}
!/^[ \t]*```/ {
    shows = inside && follows && FNR > last && !/^ *(\.\.\.)?$/
    if (inside && fresh && count > 0 && !(/^\$ /)) { # goes on with the last command's output
        kept_at = at
        follows = shows = find($0)
        at = kept_at
    }
    fresh = 0
    if (shows && find($0)) say(found)
    else {
        if (shows && !/^\$ /) {
            printf "%s:%d: the program does not print this line: %s\n", page, FNR, $0 > "/dev/stderr"
            missing = 1
        }
        say($0)
    }
    if (inside && /^\$ /) { follows = 0; count = 0 }
}
FNR in file_after { read_output(file_after[FNR]); follows = 1; last = FNR; fresh = 0 }
END { exit missing }
