// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// shapesOf returns the members of an answer with the types of their values; the items of an array are one.
func shapesOf(v any) map[string]string {
	out := map[string]string{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, member := range v {
				if k == "params" || k == "details" { // named by users
					member = nil
				}
				walk(path+"."+k, member)
			}
		case []any:
			for _, item := range v {
				walk(path+"[]", item)
			}
		case json.Number:
			out[path] = "number"
		default:
			out[path] = fmt.Sprintf("%T", v)
		}
	}
	walk("", v)
	return out
}

// TestShapesOfCloud compares the shape of answers that make cloud met on a real server with ours in the same situation.
func TestShapesOfCloud(t *testing.T) {
	t.Parallel()
	const job = 10 * time.Second
	cases := loadGolden(t, "testdata/golden-cloud")
	for name, situation := range map[string]func(h *env) answer{
		"listAsyncJobs": func(h *env) answer {
			h.set("net", h.netID("k8s-net"), "ip", h.legacyIP()).play(`
				k8s-owner listLoadBalancerRules > rule
				k8s-owner listVirtualMachines > vm
				&k8s-owner assignToLoadBalancerRule id={rule} virtualmachineids={vm}
				&k8s-owner createFirewallRule ipaddressid={ip} protocol=tcp startport=9000`)
			return h.call(owner, "listAsyncJobs", "page", "1", "pagesize", "500")
		},
		"listLBStickinessPolicies": func(h *env) answer {
			h.play(`
				k8s-owner listLoadBalancerRules > rule
				k8s-owner createLBStickinessPolicy lbruleid={rule} name=a methodname=LbCookie
				&k8s-owner createLBStickinessPolicy lbruleid={rule} name=b methodname=SourceBased`)
			return h.call(owner, "listLBStickinessPolicies", "lbruleid", h.vars["rule"])
		},
		"listPublicIpAddresses": func(h *env) answer {
			h.set("net", h.netID("k8s-net")).play(`
				k8s-owner associateIpAddress networkid={net} > ip
				k8s-owner createTags resourceids={ip} resourcetype=PublicIpAddress tags[0].key=k tags[0].value=v
				k8s-owner createFirewallRule ipaddressid={ip} protocol=tcp startport=9000
				&k8s-owner disassociateIpAddress id={ip}`)
			return h.call(owner, "listPublicIpAddresses", "id", h.vars["ip"])
		},
		"listTags": func(h *env) answer {
			h.play(`
				k8s-owner createProject name=team displaytext=team > p
				k8s-owner createTags resourceids={p} resourcetype=Project tags[0].key=k tags[0].value=v`)
			return h.call(owner, "listTags", "projectid", h.vars["p"])
		},
		"listCapabilities": func(h *env) answer { return h.root("listCapabilities") },
		"listTemplates":    func(h *env) answer { return h.root("listTemplates", "templatefilter", "executable") },
		"listVPCOfferings": func(h *env) answer { return h.root("listVPCOfferings", "state", "Enabled") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, Options{Latency: LatencyProfile{Job: job}})
			h.jobTime = job + time.Second
			recorded := cases[slices.IndexFunc(cases, func(c *goldenCase) bool { return c.Command == name })]
			got := situation(h)
			var ours map[string]any
			decoder := json.NewDecoder(strings.NewReader(got.raw))
			decoder.UseNumber()
			require.NoError(t, decoder.Decode(&ours))
			want, have := shapesOf(recorded.Response), shapesOf(ours)
			for _, path := range slices.Sorted(maps.Keys(want)) {
				require.Equal(t, want[path], have[path], "%s: %s", path, got.raw)
			}
			for path := range have {
				require.Contains(t, want, path, got.raw)
			}
		})
	}
}
