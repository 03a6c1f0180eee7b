// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"testing"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/ui/model"
)

func faulty(s model.Snapshot) model.Snapshot {
	s.Faults = []model.Fault{
		{Name: "capacity", Title: "No capacity"}, {Name: "slow jobs", Title: "Slow jobs", Enabled: true},
		{Name: "broken", Title: "Broken"},
	}
	return s
}

// TestViews checks every view and its filters.
func TestViews(t *testing.T) {
	t.Parallel()
	node := func(i int) string { return " external-cloudstack://" + vmID(i) + " " + vmID(i) + " Running " }
	show(t, desk, sample(20, 20)).play([]step{
		{"", "h1", "Cluster sample: 20 Services, 20 nodes"},
		{"", "#connection", "Live"},
		{"", "nav a", "Map|Checks2|Plan2|Time line|Nodes2"},
		{"", ".column h3", "Services 20|Addresses 20|Rules 26|Nodes 20|VMs 20|Networks 1"},
		{"", box("service/team-00/web-0007"), "error: web-0007 LoadBalancerReady is False: LimitReached"},
		{"", box("rule/orphan"), "orphan: left-behind-80 80 to 30080/TCP"},
		{"", box("rule/foreign"), "foreign: somebody-else 25 to 25/TCP"},
		{"", "#legend li", "✓ ok 99|◇ foreign 1|○ orphan 1|! warning 3|✕ error 3"},
		{"", ".cause", "✕ error node-0006 LoadBalancerReady is False: LimitReached|" +
			"✕ error team-00/web-0007 the limit of public addresses is reached Ask the operator for more, or run " +
			"csccm status.|" +
			"! warning node-0016 differs from the plan since 10:21|" +
			"! warning team-00/web-0017 differs from the plan since 10:21 Planned: + create firewall rule 443/TCP"},
		{"click #map-wrong", ".column h3", "Services 3|Addresses 3|Rules 3|Nodes 2|VMs 2|Networks 1"},
		{"click #map-wrong", "", ""},
		{"click #map-search", "", ""},
		{"type 203.0.0.13", "#map-found", "2 of 107 objects match"},
		{"", "", `document.getElementById('announce').textContent === '2 of 107 objects match'`},

		{"view checks", "#checks tbody th", "NODE-001 Kubelets run with an external provider|" +
			"NODE-006 Kubelet and controller agree on node addresses|LB-003 Probes|CS-001 CloudStack answers"},
		{"", "#checks tbody tr:first-child td",
			"✕ error|Nodes|1 of 3 kubelets does not Remedy: Run csccm taint.|Node node-0000 Node gone"},
		{"", "", `document.querySelector('#checks tbody a').href === 'https://example.com/checks#node-001'`},
		{set("#checks select[name=status]", "warning"), "#checks [role=status]", "1 of 4 checks"},
		{"", "#checks tbody th", "NODE-006 Kubelet and controller agree on node addresses"},

		{"view plan", "#plan h3", "team-00/web-0007|team-00/web-0017"},
		{"", "#plan .refusal",
			"✕ error the limit of public addresses is reached Ask the operator for more, or run csccm status."},
		{"", "#plan .plan li",
			"+ create firewall rule 443/TCP|- delete load balancer rule web-0017-80|~ change algorithm to leastconn"},

		{"view timeline", "#timeline tbody tr", "10:30:00 leader LeaderElection ccm-1 became leader|10:23:00 event " +
			"team-00/web-0007 ! warning SyncLoadBalancerFailed (3 times) LoadBalancerReady is False: " +
			"LimitReached|10:13:00 event team-00/web-0017 SyncLoadBalancerFailed (3 times) differs from the plan " +
			"since 10:21|09:30:00 drift left-behind-80 Repaired 1 load balancer rule|createLoadBalancerRule 431 " +
			"0.5|listVirtualMachines 200 2"},
		{"view nodes", "#nodes [role=status]", "20 of 20 nodes"},
		{"click #nodes input[type=checkbox]", "#nodes tbody tr",
			"node-0006 ✕ error LoadBalancerReady is False: LimitReached no external taint removed by the controller" +
				node(6) + "10.1.0.7 10.1.0.7|" +
				"node-0016 ! warning differs from the plan since 10:21 yes external taint removed by the controller" +
				node(16) +
				"10.1.0.17 (differs) 10.9.9.9"},
		{"click #nodes tbody a", "#details h2", "node-0006"},
	})
}

// set returns an action that chooses a value of a list.
func set(selector, value string) string {
	return `((s) => { s.value = ` + quote(value) + `; s.dispatchEvent(new Event('change')) })` +
		`(document.querySelector(` + quote(selector) + `))`
}

// follow returns an action that clicks a link in the details.
func follow(text string) string {
	return `[...document.querySelectorAll('#details .relations a')].find((a) => a.textContent === ` + quote(text) +
		`).click()`
}

// TestClickPath goes from a Service along its path to the network, and copies a command.
func TestClickPath(t *testing.T) {
	t.Parallel()
	e := show(t, desk, sample(20, 20))
	for _, name := range []string{"clipboard-read", "clipboard-write"} {
		_, err := chromedp.CallBrowser(e.ctx, cdpbrowser.SetPermission, cdpbrowser.SetPermissionParams{
			Permission: &cdpbrowser.PermissionDescriptor{Name: name}, Setting: cdpbrowser.PermissionSettingGranted,
			BrowserContextID: chromedp.FromContext(e.ctx).BrowserContextID,
		})
		require.NoError(t, err)
	}

	e.play([]step{
		{"hover " + box("service/team-00/web-0003"), "", `document.querySelectorAll('.box[data-on]').length > 20`},
		{"", ".column:first-of-type .box[data-on]", "ok: web-0003 203.0.0.4 443/TCP"},
		{"", "", `document.querySelector('path.hot').getAttribute('d').startsWith('M')`},
		{"click " + box("service/team-00/web-0007"), "focus", "details-heading"},
		{"", "#details h2", "web-0007"},
		{"", "#details h3", "Why|Facts|Plan|Leads to|Events|In a terminal"},
		{"", "#details .why li", "LoadBalancerReady is False: LimitReached"},
		{"", "#details dl", "Type LoadBalancer Policy Cluster"},
		{"", "#details .entries li",
			"10:23:00 ! SyncLoadBalancerFailed (3 times) LoadBalancerReady is False: LimitReached"},
		{"", "#details code", "kubectl -n team-00 describe service web-0007|csccm plan -n team-00 web-0007"},
		{"click #details .command:last-of-type button", "",
			`document.getElementById('announce').textContent === 'Copied'`},
		{follow("203.0.0.8"), "#details h2", "203.0.0.8"},
		{follow("web-0007-443"), "#details h2", "web-0007-443"},
		{"", "#details .relations li", "203.0.0.8 Address, 443|all of pool-00 (Node), 30443"},
		{"", ".box[aria-current=true]", "error: web-0007-443 443 to 30443/TCP"},
		{"click #details .head button", "focus", "rule/r-0007"},
		{"", "", `document.getElementById('details').hidden`},
	})

	require.Equal(t, "csccm plan -n team-00 web-0007", value[string](e.tab, `navigator.clipboard.readText()`))
}

// TestKeyboardPath uses the page without a mouse.
func TestKeyboardPath(t *testing.T) {
	t.Parallel()
	e := show(t, desk, sample(100, 20))
	tabTo := func(until string) {
		for !value[bool](e.tab, until) {
			e.press("Tab")
		}
	}

	for _, want := range []string{"skip", "#map", "#checks", "#plan", "#timeline", "#nodes", "map-search", "map-wrong",
		"map-namespace"} {
		e.play([]step{{"press Tab", "focus", want}})
	}

	// Tab passes the numbers by health and the causes
	tabTo(`document.activeElement.dataset.id === 'fold/services/team-00'`)
	e.play([]step{
		{"press ArrowRight", "focus", "fold/addresses/team-00"},
		{"press ArrowRight ArrowDown ArrowDown", "focus", "fold/rules/team-02"},
		{"press ArrowLeft ArrowLeft End", "focus", "fold/services/team-03"},
		{"press Home Enter", "", `document.activeElement.getAttribute('aria-expanded') === 'true'`}, // opens the group
		{"press ArrowDown ArrowDown Enter", "focus", "details-heading"},
		{"", "#details h2", "web-0001"},
		{"press Tab", "focus", "close"},
		{"press Escape", "focus", "service/team-00/web-0001"},
		{"", "#details h2", ""},
		{`document.getElementById('map-fold').focus()`, "focus", "map-fold"},
		{"press Enter", ".column:first-of-type .box", "=4"},
	})

	e.slash()
	e.play([]step{
		{"", "focus", "map-search"},
		{"type web-0042", "", `document.activeElement.value === 'web-0042'`},
		{"", ".column:first-of-type .box", "=1"},
	})

	tabTo(`'id' in document.activeElement.dataset`)
	e.play([]step{
		{"press Enter", "focus", "details-heading"},
		{"", "#details h2", "web-0042"},
		{"view nodes", "", ""},
	})

	e.slash() // from another view
	e.play([]step{{"", "focus", "map-search"}})
}
