// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// direct runs in its own network namespace. The API of the simulator itself is the backend of the members.
const direct = `
ip link set lo up
ip link add br0 type bridge
ip link set br0 up
printf '10.1.1.21:30080: 127.0.0.1:8096\n10.1.1.22:30080: 127.0.0.1:8096\n' > members.yaml
cloudstack-sim --world example --integration-listen 127.0.0.1:8096 --admin-listen 127.0.0.1:8097 --data-path direct --data-path-link br0 --data-path-members members.yaml --print-keys=false &
curl -fsS 'http://203.0.113.20/client/api?command=listZones&response=json'
ip -br address show br0
rule() { curl -fsS "http://127.0.0.1:8096/client/api?command=listLoadBalancerRules&response=json&listall=true&keyword=-$1" | grep -o '"id":"[^"]*"' | head -1 | cut -d'"' -f4; }
for port in 80 443; do curl -fsS "http://127.0.0.1:8096/client/api?command=deleteLoadBalancerRule&response=json&id=$(rule $port)"; done
for i in $(seq 1200); do ip -br address show br0 | grep -q 203.0.113.20 || { echo address gone; break; }; sleep 0.05; done
kill %1
`

// TestDirect checks that public addresses are on an interface while rules use them.
func TestDirect(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		t.Skip("network namespaces need root on Linux")
	}
	for _, tool := range []string{"unshare", "ip"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "unshare", "-n", "true").CombinedOutput(); err != nil {
		t.Skipf("no network namespaces here: %s", out)
	}
	out := runShell(t, direct, "unshare", "-n")
	require.Contains(t, out, `"name":"zone-1"`, "through the balancer")
	require.Equal(t, 1, strings.Count(out, "203.0.113.20/32"), "an address with two rules is on the interface once")
	require.Contains(t, out, "address gone")
}
