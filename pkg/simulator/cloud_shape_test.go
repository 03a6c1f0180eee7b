// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// shapesOf returns the members of an answer with the types of their values; all items of an array are merged.
func shapesOf(v any) map[string]string {
	out := map[string]string{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, member := range v {
				if k == "params" || k == "details" { // users name the members
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

// TestShapesOfCloud compares the shape of answers that make cloud got from a real server with the shape of the
// simulator's answers in the same situation.
func TestShapesOfCloud(t *testing.T) {
	t.Parallel()
	const job = 10 * time.Second
	cases := loadGolden(t, "testdata/golden-cloud")
	for name, script := range map[string]string{
		"listAsyncJobs": `
			k8s-owner listLoadBalancerRules > rule
			k8s-owner listVirtualMachines > vm
			&k8s-owner assignToLoadBalancerRule id={rule} virtualmachineids={vm}
			&k8s-owner createFirewallRule ipaddressid={ips:203.0.113.20} protocol=tcp startport=9000
			k8s-owner listAsyncJobs page=1 pagesize=500`,
		"listLBStickinessPolicies": `
			k8s-owner listLoadBalancerRules > rule
			k8s-owner createLBStickinessPolicy lbruleid={rule} name=a methodname=LbCookie
			&k8s-owner createLBStickinessPolicy lbruleid={rule} name=b methodname=SourceBased
			k8s-owner listLBStickinessPolicies lbruleid={rule}`,
		"listPublicIpAddresses": `
			k8s-owner associateIpAddress networkid={networks:k8s-net} > ip
			k8s-owner createTags resourceids={ip} resourcetype=PublicIpAddress tags[0].key=k tags[0].value=v
			k8s-owner createFirewallRule ipaddressid={ip} protocol=tcp startport=9000
			&k8s-owner disassociateIpAddress id={ip}
			k8s-owner listPublicIpAddresses id={ip}`,
		"listTags": `
			k8s-owner createProject name=team displaytext=team > p
			k8s-owner createTags resourceids={p} resourcetype=Project tags[0].key=k tags[0].value=v
			k8s-owner listTags projectid={p}`,
		"listCapabilities": `root listCapabilities`,
		"listTemplates":    `root listTemplates templatefilter=executable`,
		"listVPCOfferings": `root listVPCOfferings state=Enabled`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, Options{Latency: LatencyProfile{Job: job}})
			h.jobTime = job + time.Second
			recorded := cases[slices.IndexFunc(cases, func(c *goldenCase) bool { return c.Command == name })]
			h.play(script)
			require.Equal(t, shapesOf(recorded.Response), shapesOf(h.last.exact()), h.last.raw)
		})
	}
}
