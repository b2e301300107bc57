# Managed by triton-ensemble-template: edits are merged by `make update`.
# The health check of the container: an inference. Triton does not start a Python process anew that has died, nor Docker a container that is
# unhealthy. So where RESTART_AFTER says how many failures in a row are enough, a server that once answered is stopped then, to be started anew.

if python3 /opt/tools/ready.py --timeout 8; then
  echo 0 >/tmp/failures
  exit 0
fi
[ -f /tmp/failures ] || exit 1 # it is still loading
failures=$(($(cat /tmp/failures) + 1))
echo "$failures" >/tmp/failures
if [ "$failures" -eq "${RESTART_AFTER:-0}" ]; then
  echo "health check: no answer, $failures times in a row; stopping the server" >/proc/1/fd/2
  kill 1
fi
exit 1
