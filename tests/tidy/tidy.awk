# tidy.awk - reads C files and prints "file:line: what is wrong" for each broken house rule.
#
# Given: the paths of all files, relative to the root, twice: first as lines of the list in `paths`
# (a file), then as arguments. The rules are explained in tests/tidy/tidy.sh.

BEGIN {
    # The dependency law. A folder may include itself and what stands in its row.
    law["sim/base"]      = ""
    law["costmodel"]     = "sim/base"
    law["sim/engine"]    = law["sim/model"] = law["sim/data"] = "sim/base costmodel"
    law["sim/layout"]    = law["sim/engine"] " sim/engine sim/model sim/data"
    law["sim/policy"]    = law["sim/layout"] " sim/layout"
    law["sim/scenario"]  = law["sim/policy"] " sim/policy"
    law["sim/step"]      = law["sim/scenario"] " sim/scenario"
    law["sim/replay"]    = law["sim/step"] " sim/step"
    law["results"]       = law["sim/replay"] " sim/replay"
    law["sim/study"]     = law["results"] " results"
    studies = " sim/study"
    law["sim/study/sweep"] = law["sim/study/reproduce"] = law["sim/study/measured"] = law["sim/study"] studies
    law["sim/study/bench"] = law["sim/study/sweep"] " sim/study/sweep"
    studies = studies " sim/study/sweep sim/study/reproduce sim/study/measured sim/study/bench"
    law["calibrate/fit"] = "sim/base costmodel"
    law["sim/cli"]       = law["sim/study"] studies " calibrate/fit sim"
    law["sim"]           = law["sim/cli"] " sim/cli" # sim/ballast.h, the public interface
    law["calibrate/bench"] = "calibrate/fit" # gpu_name.h alone: both sides name GPUs alike
    # Tests that see the whole program but its command line.
    law["tests"]         = law["sim/study"] studies " calibrate/fit calibrate/bench"

    # A program that cannot go on says so itself.
    speaks["sim/base/error.c"] = speaks["sim/base/arena.c"] = 1

    while ((getline path < paths) > 0) {
        exists[path] = 1
        stem = path
        sub(/.*\//, "", stem)
        sub(/\.[^.]*$/, "", stem)
        if (path !~ /^tests\//) stem_in[folder_of(path) SUBSEP stem] = 1
    }
    for (folder in law) {
        count = split(law[folder], allowed, " ")
        for (i = 1; i <= count; i++) may[folder SUBSEP allowed[i]] = 1
        may[folder SUBSEP folder] = 1
    }
    failures = 0
}

function complain(message) {
    printf "%s:%d: %s\n", FILENAME, FNR, message
    failures++
}

# The folder of the law that a path belongs to; "" outside the law.
function folder_of(path, parts) {
    split(path, parts, "/")
    if (path ~ /^sim\/study\/[^\/]*\//) return "sim/study/" parts[3]
    if (path ~ /^tests\/unit\/study\/[^\/]*\//) return "sim/study/" parts[4]
    if (parts[1] == "sim") return path ~ /^sim\/[^\/]*$/ ? "sim" : "sim/" parts[2]
    if (parts[1] == "calibrate") return "calibrate/" parts[2]
    if (parts[1] == "costmodel" || parts[1] == "results") return parts[1]
    if (path ~ /^tests\/unit\/[^\/]*\//) return unit_folder(parts[3])
    if (parts[1] == "tests") return "tests"
    return ""
}

# tests/unit/<name> tests one folder and may include what that folder may.
function unit_folder(name) {
    if (name == "costmodel" || name == "results") return name
    if (name == "fit") return "calibrate/fit"
    return "sim/" name
}

function check_names(file, stem, subject) {
    file = FILENAME
    sub(/.*\//, "", file)
    stem = file
    sub(/\.[^.]*$/, "", stem)
    own = folder_of(FILENAME)
    if (own == "" || !((own SUBSEP own) in may)) {
        complain("this folder is not part of the dependency law in docs/ARCHITECTURE.md")
        own = ""
    }
    where = FILENAME
    sub(/\/[^\/]*$/, "", where)
    if ((stem in stem_place) && stem_place[stem] != where)
        complain("the stem \"" stem "\" is also that of " stem_file[stem])
    else if (!(stem in stem_place)) {
        stem_place[stem] = where
        stem_file[stem] = FILENAME
    }
    if (FILENAME ~ /^tests\/(unit|oracle|property)\/.*\.c$/ && stem !~ /^test_/)
        complain("a test file is called test_<stem>.c")
    else if (FILENAME ~ /^tests\/unit\/.*\.c$/) {
        subject = substr(stem, 6)
        if (own != "" && !((own SUBSEP subject) in stem_in))
            complain("there is no " subject ".c or " subject ".h in " own " that this could test")
    }
    if (index($0, "/* " file " - ") != 1)
        complain("the file must open with \"/* " file " - what it is\"")
}

function check_include(target, theirs) {
    target = $0
    sub(/^[ \t]*#[ \t]*include[ \t]*"/, "", target)
    sub(/".*/, "", target)
    if (index(target, "/") == 0) {
        # Without a folder it can only be made by the build.
        if ((where "/" target) in exists) complain("include \"" where "/" target "\" by its path from the root")
        return
    }
    if (!(target in exists)) {
        complain("\"" target "\" is not a file of this repository, seen from the root")
        return
    }
    theirs = folder_of(target)
    if (own != "" && !((own SUBSEP theirs) in may))
        complain(own " may not include " theirs " (\"" target "\")")
}

# The line without comments and with empty strings; `in_comment` runs over lines.
function code_of(line, code, start, what) {
    code = ""
    while (line != "") {
        if (in_comment) {
            start = index(line, "*/")
            if (start == 0) return code
            line = substr(line, start + 2)
            in_comment = 0
            continue
        }
        if (!match(line, /\/\*|\/\/|"|'/)) return code line
        what = substr(line, RSTART, RLENGTH)
        code = code substr(line, 1, RSTART - 1)
        line = substr(line, RSTART + RLENGTH)
        if (what == "//") return code
        if (what == "/*") {
            in_comment = 1
            code = code " "
        } else {
            code = code what what
            line = after_quote(line, what)
        }
    }
    return code
}

function after_quote(line, quote, i, c) {
    for (i = 1; i <= length(line); i++) {
        c = substr(line, i, 1)
        if (c == "\\") i++
        else if (c == quote) return substr(line, i + 1)
    }
    return ""
}

function check_talk(code) {
    if (match(code, /(^|[^A-Za-z0-9_])(v?printf|puts|putchar|perror|exit|_exit|_Exit|quick_exit)[ \t]*\(/))
        complain("only sim/cli prints or exits; return an error or write to a stream of the caller")
    else if (match(code, /(^|[^A-Za-z0-9_])(stdout|stderr)([^A-Za-z0-9_]|$)/))
        complain("only sim/cli knows stdout and stderr; take a stream from the caller")
}

FNR == 1 {
    in_comment = 0
    silent = FILENAME ~ /^(sim|costmodel|results|calibrate\/fit)\// && FILENAME !~ /^sim\/cli\// &&
        !(FILENAME in speaks)
    check_names()
}
/^[ \t]*#[ \t]*include[ \t]*"/ { check_include() }
/(^|[^A-Za-z])(TODO|FIXME|XXX)([^A-Za-z]|$)/ { complain("unfinished work has no place here") }
silent { check_talk(code_of($0)) }

END { exit failures > 0 }
