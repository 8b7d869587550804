# Before SIGTERM: wait until no request is running, for DRAIN_SECONDS at the most. A server that is told to end while it
# reads a long prompt may hang, so it is told when it is idle. Bash and its /dev/tcp only: the image has no more.
deadline=$((SECONDS + ${DRAIN_SECONDS:-120}))
sleep 5 # until nobody sends to this pod any more
while [ "$SECONDS" -lt "$deadline" ]; do
  exec 3<>/dev/tcp/127.0.0.1/8080 || exit 0
  printf 'GET /metrics HTTP/1.0\r\nAuthorization: Bearer %s\r\n\r\n' "$(cat /run/llama/api-key)" >&3
  running=0
  while IFS= read -r line <&3; do
    case $line in
      'llamacpp:requests_processing '* | 'llamacpp:requests_deferred '*)
        case ${line##* } in 0*) ;; *) running=1 ;; esac ;;
    esac
  done
  exec 3>&-
  [ "$running" = 0 ] && exit 0
  sleep 2
done
exit 0
