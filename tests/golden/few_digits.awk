# few_digits.awk - rounds every number that has a point or more than three digits to two significant
# digits and squeezes spaces, so that a golden file shows an answer and not its last bits.
{
    rest = $0
    line = ""
    while (match(rest, /[0-9]+(,[0-9][0-9][0-9])*(\.[0-9]+)?(e[-+]?[0-9]+)?/)) {
        number = plain = substr(rest, RSTART, RLENGTH)
        gsub(/,/, "", plain)
        if (number ~ /[.e]/ || length(plain) > 3) number = sprintf("%.2g", plain)
        line = line substr(rest, 1, RSTART - 1) number
        rest = substr(rest, RSTART + RLENGTH)
    }
    line = line rest
    gsub(/  +/, "  ", line)
    sub(/ +$/, "", line)
    print line
}
