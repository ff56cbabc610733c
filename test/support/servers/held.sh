#!/bin/sh
# A stdio MCP server that is held back until somebody writes to a FIFO, its only argument. It is a shell script so that
# many of them start quickly. Its one tool, `hello`, takes nothing.
: < "$1"
while IFS= read -r line; do
  id=${line##*'"id":'}
  id=${id%%[!0-9]*}
  case $line in
    *'"method":"initialize"'*)
      result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"held","version":"1"}}' ;;
    *'"method":"tools/list"'*)
      result='{"tools":[{"name":"hello","inputSchema":{"type":"object","properties":{}}}]}' ;;
    *'"method":"tools/call"'*)
      result='{"content":[{"type":"text","text":"hello"}]}' ;;
    *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
