#!/bin/sh
# embed.sh OUT FILE...: the files as entries of a C++ list: name, type, text.
out=$1
shift
for file; do
  case $file in
    *.html) type='text/html; charset=utf-8' ;;
    *.css) type='text/css; charset=utf-8' ;;
    *.svg) type='image/svg+xml' ;;
    *) type='text/javascript; charset=utf-8' ;;
  esac
  printf '{"%s", "%s",\nR"~~~(' "${file##*/}" "$type"
  cat "$file" || exit 1
  printf ')~~~"},\n'
done >"$out.part" && mv "$out.part" "$out"
