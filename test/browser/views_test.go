// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"slices"
	"strings"
	"testing"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/chromedp"

	"github.com/csccm/csccm/pkg/ui/model"
)

// want fails the test unless the visible text of a selector's elements is this.
func (e *env) want(selector string, want ...string) {
	e.Helper()
	if got := e.texts(selector); !slices.Equal(got, want) {
		e.Errorf("%s shows\n  %s\nwant\n  %s", selector, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func faulty(s model.Snapshot) model.Snapshot {
	s.Faults = []model.Fault{{Name: "capacity", Title: "No capacity"}, {Name: "slow jobs", Title: "Slow jobs", Enabled: true}, {Name: "broken", Title: "Broken"}}
	return s
}

// TestViews looks at every view, with its filters.
func TestViews(t *testing.T) {
	t.Parallel()
	e := show(t, desk, sample(20, 20))
	e.want("h1", "Cluster sample: 20 Services, 20 nodes")
	e.want("#connection", "Live")
	e.want("nav a", "Map", "Checks2", "Plan2", "Time line", "Nodes2")
	e.want(".column h3", "Services 20", "Addresses 20", "Rules 26", "Nodes 20", "VMs 20", "Networks 1")
	e.want(box("service/team-00/web-0007"), "error: web-0007 LoadBalancerReady is False: LimitReached")
	e.want(box("rule/orphan"), "orphan: left-behind-80 80 to 30080/TCP")
	e.want(box("rule/foreign"), "foreign: somebody-else 25 to 25/TCP")
	e.want("#legend li", "✓ ok 99", "◇ foreign 1", "○ orphan 1", "! warning 3", "✕ error 3")
	e.want(".cause", "✕ error node-0006 LoadBalancerReady is False: LimitReached", "✕ error team-00/web-0007 the limit of public addresses is reached Ask the operator for more, or run csccm status.", "! warning node-0016 differs from the plan since 10:21", "! warning team-00/web-0017 differs from the plan since 10:21 Planned: + create firewall rule 443/TCP")

	e.click("#map-wrong")
	e.until(`document.querySelectorAll('.column:first-of-type .box').length === 3`)
	e.want(".column h3", "Services 3", "Addresses 3", "Rules 3", "Nodes 2", "VMs 2", "Networks 1")
	e.click("#map-wrong")
	e.click("#map-search")
	e.press("203.0.0.13")
	e.until(`document.querySelectorAll('.column:first-of-type .box').length === 1`)
	e.want("#map-found", "2 of 107 objects match")
	e.until(`document.getElementById('announce').textContent === '2 of 107 objects match'`)

	e.view("checks")
	e.want("#checks tbody th", "NODE-001 Kubelets run with an external provider", "NODE-006 Kubelet and controller agree on node addresses", "LB-003 Probes", "CS-001 CloudStack answers")
	e.want("#checks tbody tr:first-child td", "✕ error", "Nodes", "1 of 3 kubelets does not Remedy: Run csccm taint.", "Node node-0000 Node gone")
	e.until(`document.querySelector('#checks tbody a').href === 'https://example.com/checks#node-001'`)
	e.do(chromedp.SetValue(chromedp.CSS("#checks select[name=status]"), "warning"))
	e.do(chromedp.Evaluate[chromedp.Void](`document.querySelector('#checks select[name=status]').dispatchEvent(new Event('change'))`))
	e.want("#checks [role=status]", "1 of 4 checks")
	e.want("#checks tbody th", "NODE-006 Kubelet and controller agree on node addresses")

	e.view("plan")
	e.want("#plan h3", "team-00/web-0007", "team-00/web-0017")
	e.want("#plan .refusal", "✕ error the limit of public addresses is reached Ask the operator for more, or run csccm status.")
	e.want("#plan .plan li", "+ create firewall rule 443/TCP", "- delete load balancer rule web-0017-80", "~ change algorithm to leastconn")

	e.view("timeline")
	e.want("#timeline tbody tr", "10:30:00 leader LeaderElection ccm-1 became leader",
		"10:23:00 event team-00/web-0007 ! warning SyncLoadBalancerFailed (3 times) LoadBalancerReady is False: LimitReached",
		"10:13:00 event team-00/web-0017 SyncLoadBalancerFailed (3 times) differs from the plan since 10:21",
		"09:30:00 drift left-behind-80 Repaired 1 load balancer rule",
		"createLoadBalancerRule 431 0.5", "listVirtualMachines 200 2")

	e.view("nodes")
	e.want("#nodes [role=status]", "20 of 20 nodes")
	e.click("#nodes input[type=checkbox]")
	e.want("#nodes tbody tr",
		"node-0006 ✕ error LoadBalancerReady is False: LimitReached no external taint removed by the controller external-cloudstack://"+vmID(6)+" "+vmID(6)+" Running 10.1.0.7 10.1.0.7",
		"node-0016 ! warning differs from the plan since 10:21 yes external taint removed by the controller external-cloudstack://"+vmID(16)+" "+vmID(16)+" Running 10.1.0.17 (differs) 10.9.9.9")
	e.click("#nodes tbody a")
	e.until(`!document.getElementById('details').hidden`)
	e.want("#details h2", "node-0006")
}

// TestClickPath goes from a Service along its path to the network, and copies a command.
func TestClickPath(t *testing.T) {
	t.Parallel()
	e := show(t, desk, sample(20, 20))
	for _, name := range []string{"clipboard-read", "clipboard-write"} {
		if _, err := chromedp.CallBrowser(e.ctx, cdpbrowser.SetPermission, cdpbrowser.SetPermissionParams{
			Permission: &cdpbrowser.PermissionDescriptor{Name: name}, Setting: cdpbrowser.PermissionSettingGranted, BrowserContextID: chromedp.FromContext(e.ctx).BrowserContextID,
		}); err != nil {
			t.Fatal(err)
		}
	}
	e.hover(box("service/team-00/web-0003"))
	e.until(`document.querySelectorAll('.box[data-on]').length > 20`)
	e.want(".column:first-of-type .box[data-on]", "ok: web-0003 203.0.0.4 443/TCP")
	e.until(`document.querySelector('path.hot').getAttribute('d').startsWith('M')`)

	e.click(box("service/team-00/web-0007"))
	e.until(`document.activeElement.id === 'details-heading'`)
	e.want("#details h2", "web-0007")
	e.want("#details h3", "Why", "Facts", "Plan", "Leads to", "Events", "In a terminal")
	e.want("#details .why li", "LoadBalancerReady is False: LimitReached")
	e.want("#details dl", "Type LoadBalancer Policy Cluster")
	e.want("#details .entries li", "10:23:00 ! SyncLoadBalancerFailed (3 times) LoadBalancerReady is False: LimitReached")
	e.want("#details code", "kubectl -n team-00 describe service web-0007", "csccm plan -n team-00 web-0007")
	e.click("#details .command:last-of-type button")
	e.until(`document.getElementById('announce').textContent === 'Copied'`)
	if got := value[string](e.tab, `navigator.clipboard.readText()`); got != "csccm plan -n team-00 web-0007" {
		t.Errorf("copied %q", got)
	}
	for _, step := range []struct{ link, heading string }{
		{"203.0.0.8", "203.0.0.8"}, {"web-0007-443", "web-0007-443"},
	} {
		e.until(`[...document.querySelectorAll('#details .relations a')].some((a) => a.textContent === ` + quote(step.link) + ` && (a.id = 'next'))`)
		e.click("#next")
		e.until(`document.querySelector('#details h2').textContent === ` + quote(step.heading))
	}
	e.want("#details .relations li", "203.0.0.8 Address, 443", "all of pool-00 (Node), 30443")
	e.want(".box[aria-current=true]", "error: web-0007-443 443 to 30443/TCP")
	e.click("#details .head button")
	e.until(`document.getElementById('details').hidden`)
	if got := value[string](e.tab, `document.activeElement.dataset.id`); got != "rule/r-0007" {
		t.Errorf("after closing, the focus is on %q", got)
	}
}

// TestKeyboardPath does everything without a mouse.
func TestKeyboardPath(t *testing.T) {
	t.Parallel()
	e := show(t, desk, sample(100, 20))
	focused := func(want string) {
		t.Helper()
		if got := value[string](e.tab, `(() => { const a = document.activeElement; return a.dataset.id || a.id || a.getAttribute('href') || a.dataset.focus || a.textContent })()`); got != want {
			t.Fatalf("the focus is on %q, want %q", got, want)
		}
	}
	for _, want := range []string{"skip", "#map", "#checks", "#plan", "#timeline", "#nodes", "map-search", "map-wrong", "map-namespace"} {
		e.press("Tab")
		focused(want)
	}
	for value[string](e.tab, `document.activeElement.dataset.id ?? ''`) != "fold/services/team-00" { // past the numbers by health and the causes
		e.press("Tab")
	}
	focused("fold/services/team-00")
	e.press("ArrowRight")
	focused("fold/addresses/team-00")
	e.press("ArrowRight", "ArrowDown", "ArrowDown")
	focused("fold/rules/team-02")
	e.press("ArrowLeft", "ArrowLeft", "End")
	focused("fold/services/team-03")
	e.press("Home", "Enter") // opens the group
	e.until(`document.activeElement.getAttribute('aria-expanded') === 'true'`)
	e.press("ArrowDown", "ArrowDown", "Enter")
	e.until(`document.activeElement.id === 'details-heading'`)
	e.want("#details h2", "web-0001")
	e.press("Tab")
	focused("close")
	e.press("Escape")
	focused("service/team-00/web-0001")
	e.want("#details h2")
	e.do(chromedp.Focus(chromedp.CSS("#map-fold")))
	e.press("Enter")
	e.until(`document.querySelectorAll('.column:first-of-type .box').length === 4`)
	e.slash()
	e.until(`document.activeElement.id === 'map-search'`)
	e.press("web-0042")
	e.until(`document.activeElement.value === 'web-0042'`)
	e.until(`document.querySelectorAll('.column:first-of-type .box').length === 1`)
	for value[string](e.tab, `document.activeElement.dataset.id ?? ''`) == "" {
		e.press("Tab")
	}
	e.press("Enter")
	e.until(`document.activeElement.id === 'details-heading'`)
	e.want("#details h2", "web-0042")
	e.view("nodes")
	e.slash() // from another view
	e.until(`document.activeElement.id === 'map-search'`)
}
