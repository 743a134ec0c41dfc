#!/bin/sh
# Runs a stream job and restarts it 2 s after a fatal error (exit 70), as often as it takes: a container that ends
# would wait longer every time. Any other end is the container's. SIGTERM goes to the job, which commits first.
set -u
pid=""
stopping=""
trap 'stopping=1; [ -z "$pid" ] || kill -TERM "$pid"' TERM INT
while [ -z "$stopping" ]; do
  fleetpulse jobs "$@" &
  pid=$!
  [ -z "$stopping" ] || kill -TERM "$pid" # SIGTERM came before the job had a process id
  wait "$pid"
  code=$?
  if [ -n "$stopping" ]; then
    wait "$pid" # the first wait was cut short by the signal
    code=$?
    [ "$code" -ne 127 ] || code=0 # it had ended by then
  fi
  pid=""
  [ "$code" -eq 70 ] || exit "$code"
  [ -n "$stopping" ] || sleep "${RESTART_AFTER_S:-2}"
done
