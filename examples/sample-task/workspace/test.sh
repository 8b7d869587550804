#!/bin/sh
# Checks price.sh; ends with 1 when it is wrong.
got=$(sh price.sh 1000)
if [ "$got" = 1200 ]; then
  echo "ok: price.sh 1000 prints 1200"
else
  echo "FAILED: price.sh 1000 prints $got, should print 1200"
  exit 1
fi
