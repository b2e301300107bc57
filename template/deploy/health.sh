# Managed by triton-ensemble-template: edits are merged by `make update`.
# The health check of the container: an inference. Triton does not start a Python process anew that has died, nor Docker a container that is
# unhealthy. So where RESTART_AFTER says how many failures in a row are enough, a server that once answered is stopped then, to be started anew.
# A busy server is left alone: it has not failed as long as it answers others.

failures=/tmp/health.failures # a folder for each failure: these need no room on a disk that is full
if python3 /opt/tools/ready.py --timeout "${HEALTH_TIMEOUT:-8}" --metrics http://127.0.0.1:8002/metrics --since /tmp/health.answered; then
  rm -rf $failures
  mkdir $failures
  exit 0
fi
[ -d $failures ] || exit 1 # it is still loading
count=$(($(ls $failures | wc -l) + 1))
mkdir "$failures/$count"
[ "${RESTART_AFTER:-0}" -gt 0 ] && [ "$count" -ge "$RESTART_AFTER" ] || exit 1
echo "health check: no answer, $count times in a row; stopping the server" >/proc/1/fd/2
if [ "$count" -lt $((RESTART_AFTER + 8)) ]; then
  kill 1
else
  kill -9 -1 # it had the time for requests in flight
fi
exit 1
