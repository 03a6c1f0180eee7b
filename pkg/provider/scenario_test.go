// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/testenv/script"
)

const (
	webLB   = "a7c3e1b5200004000800000000000abc" // default name for webUID
	webTags = "[csccm-allocated-by=cloudstack-ccm csccm-cluster=test csccm-managed-by=cloudstack-ccm " +
		"csccm-service-uid=" + webUID + " csccm-service=default/web]"
)

// known are values that every scenario can use: the prefix of the names of web's rules, its tags and the reason of its
// ACL items; nodes and a namespace; and characters that a scenario file cannot contain.
var known = map[string]string{
	"LB": webLB, "TAGS": webTags, "OWN": ownReason,
	"n1": "w1", "n2": "w2", "friend": friendNS,
	"CR": "\r", "LF": "\n", "VT": "\v", "NUL": "\x00", "LONG": strings.Repeat("x", 5000), "VARIABLE": "${HOME}",
}

// settle is the virtual time between a change and the next expectation, unless the scenario has its own wait.
const settle = time.Minute

// TestScenarios plays the scenarios of pkg/testenv/script/table: the whole controller on the simulator, in virtual
// time.
func TestScenarios(t *testing.T) {
	t.Parallel()
	all, err := script.Load()
	require.NoError(t, err)
	for _, release := range simulator.Releases() {
		require.True(t,
			slices.ContainsFunc(all,
				func(s script.Scenario) bool { return s.File == "releases" && strings.HasSuffix(s.Name, release) }),
			release)
	}

	for _, s := range all {
		if s.File == "explored" {
			continue // TestHistories plays these
		}
		parallel(t, s.File+"/"+s.Name, func(t *testing.T) {
			setup := controllerSetup{
				world: lbWorld, nodes: []string{"w1", "w2"}, config: map[string]string{"cluster-id": "test"},
				flags: []string{"--drift-period=24h", `--tenancy={"trustedNamespaces":["*"]}`},
			}
			for len(s.Steps) > 0 && configure(t, &setup, &s.Steps[0]) {
				s.Steps = s.Steps[1:]
			}
			synctest.Test(t, func(t *testing.T) {
				p := newPlayer(t, setup)
				defer func() { p.stop() }()
				if err := errors.Join(s.Play(p), p.hit()); err != nil {
					t.Fatalf("%v\nEvents:\n  %s", err, strings.Join(p.said(), "\n  "))
				}
			})
		})
	}
}

// configure performs a step that describes the world or the controller, and reports whether the step was one:
//
//	world PART ...               parts: roomy, limited:N (addresses), project, vpc:N (the number of the ACL list's
//	                             last item), tiers, tenants, other-project, offering:NAME (of k8s-net), conserveless
//	                             (no conserve mode), limit:N (addresses in all), release:4.19, deny:COMMAND,COMMAND,
//	                             vms:N (n0, n1 ...), throttled:CALLS/SECONDS; | SECTION: ITEM adds to the world
//	nodes w1 w2                  the nodes of the cluster
//	controllers                  runs Kubernetes' own controllers of Nodes, too
//	latency PROFILE              instant, quick, simulator or production; latency COMMAND=4s for one command
//	seed N                       of faults
//	flags --drift-period=5m ...  of the controller
//	config KEY=VALUE ...         of the cloud-config
//	tenancy                      the default policy, or JSON as text
func configure(t *testing.T, c *controllerSetup, s *script.Step) bool {
	t.Helper()
	var err error
	switch s.Verb {
	case "world":
		for _, part := range s.Words {
			c.part(part)
		}
		for _, line := range s.Text {
			section, item, _ := strings.Cut(strings.ReplaceAll(line, "$LB", webLB), ": ")
			c.world = strings.Replace(c.world, section+":\n", section+":\n  - "+item+"\n", 1)
		}

	case "nodes":
		c.nodes = s.Words
	case "controllers":
		c.controllers = true
	case "flags":
		c.flags = append(c.flags, s.Words...)
	case "tenancy":
		c.flags = append(c.flags, "--tenancy="+strings.Join(s.Text, ""))
	case "config":
		for _, w := range s.Words {
			key, value, _ := strings.Cut(w, "=")
			c.config[key] = value
		}

	case "latency":
		if slices.Contains([]string{"instant", "simulator", "production"}, s.Word(0)) {
			c.Latency, err = simulator.Profile(s.Word(0))
			break
		}
		c.Latency = simulator.LatencyProfile{
			Call: 20 * time.Millisecond,
			Job:  100 * time.Millisecond,
			Jobs: map[string]time.Duration{},
		}
		for _, w := range slices.DeleteFunc(s.Words, func(w string) bool { return w == "quick" }) {
			command, duration, _ := strings.Cut(w, "=")
			c.Latency.Jobs[command], err = time.ParseDuration(duration)
		}

	case "seed":
		c.Seed, err = strconv.ParseUint(s.Word(0), 10, 64)
	default:
		return false
	}

	require.NoError(t, err)
	return true
}

// part changes the world.
func (c *controllerSetup) part(part string) {
	name, value, _ := strings.Cut(part, ":")
	number, _ := strconv.Atoi(value)
	switch name {
	case "roomy":
		c.world = limitedTo(lbWorld, -1)
	case "limited":
		c.world = limitedTo(lbWorld, number)
	case "project":
		c.world, c.project = projectIn(c.world), projectID
	case "other-project":
		c.world = projectIn(c.world)
	case "vpc":
		c.world, c.vpc = vpcWorld(cmp.Or(number, 100)), true
	case "tiers":
		c.world, c.vpc = tiersIn(c.world), true
	case "tenants":
		c.world += tenantAddresses
	case "offering":
		c.world = strings.ReplaceAll(c.world, "{name: k8s-net,", "{name: k8s-net, offering: "+value+",")
	case "conserveless":
		c.world = strings.NewReplacer("{name: k8s-net,", "{name: k8s-net, noConserveMode: true,", "{name: tier,",
			"{name: tier, noConserveMode: true,").Replace(c.world)
	case "limit":
		c.world = strings.Replace(c.world, "  - name: k8s\n    role: User\n",
			fmt.Sprintf("  - name: k8s\n    role: User\n    limits: {publicIPs: %d}\n", number), 1)
	case "throttled":
		calls, seconds, _ := strings.Cut(value, "/")
		c.world = strings.Replace(c.world, "zones:\n",
			"settings: {api.throttling.enabled: 'true', api.throttling.max: '"+calls+"', api.throttling.interval: '"+
				seconds+"'}\nzones:\n", 1)

	case "vms":
		c.world = withVMs(c.world, number)
	case "release":
		c.world = strings.Replace(c.world, "version: 4.22.0.0", "version: "+value+".0.0", 1)
	case "deny":
		c.world = denying(c.world, strings.Split(value, ",")...)
		c.noForwards = strings.Contains(value, "listPortForwardingRules")
	default:
		panic(part)
	}
}
