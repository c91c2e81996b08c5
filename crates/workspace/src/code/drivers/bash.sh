# Runs pieces of Bash for Garret, one after the other, and keeps what they define.
#
# Each line on standard input is a word and the code, with its lines joined by \n, its backslashes doubled, and a full stop behind it. What
# the code prints goes where it prints it; when it has ended, the record separator and the word end both streams, on standard output with the
# exit status. Descriptors 60 to 62 are not the code's. What this program does itself is hidden from `set -x`.
exec 60<&0 61>&1 62>&2 0</dev/null
__garret_status=0
while { IFS=' ' builtin read -r __garret_word __garret_code <&60; } 2>/dev/null; do
  { builtin printf -v __garret_code '%b' "${__garret_code%.}"; } 2>/dev/null
  # One turn of a loop: neither `break` nor `continue` in the code ends the one around it.
  for __garret_turn in 1; do
    builtin eval "$__garret_code" 60<&- 61>&- 62>&-
  done
  { __garret_status=$?; } 2>/dev/null
  {
    builtin printf '\036%s\n' "$__garret_word" >&62
    builtin printf '\036%s exit %d\n' "$__garret_word" "$__garret_status" >&61
  } 2>/dev/null
done
exit "$__garret_status"
