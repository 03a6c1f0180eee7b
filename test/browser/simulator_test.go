// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/csccm/csccm/installer/testenv/leftby"
	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/simulator"
	"github.com/csccm/csccm/pkg/ui/page"
	"github.com/csccm/csccm/pkg/ui/server"
	"github.com/csccm/csccm/pkg/ui/simpage"
	"github.com/csccm/csccm/test/testenv"
)

// simulated is the page of a simulator, and the simulator.
type simulated struct {
	env
	cloud *testenv.CloudStack
}

// showSimulator opens the page of a simulator with the world of a cluster that has load balancers.
func showSimulator(t testing.TB, l look) *simulated {
	t.Helper()
	left, err := leftby.Load(leftby.Apache)
	if err != nil {
		t.Fatal(err)
	}
	world, err := left.World()
	if err != nil {
		t.Fatal(err)
	}
	cloud, err := testenv.StartCloudStack(world)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cloud.Stop)
	source := simpage.New(cloud.Simulator)
	e := &simulated{cloud: cloud}
	e.url = listen(t, server.Options{Source: source, Actions: source, Files: page.Files(), Interval: simpage.Interval})
	e.tab = newTab(t, l)
	e.do(chromedp.Navigate(e.url))
	e.until(live)
	return e
}

// TestSimulator: the simulator's page shows its world and its calls; a fault and the speed that are set there, or elsewhere, are what
// every tab shows, also one that is opened later.
func TestSimulator(t *testing.T) {
	t.Parallel()
	e := showSimulator(t, desk)
	for _, column := range []string{"Addresses", "Rules", "VMs", "Networks"} {
		e.until(`[...document.querySelectorAll('.column h3')].some((h) => h.textContent.trim().startsWith(` + quote(column) + `) && !/ 0$/.test(h.textContent.trim()))`)
	}
	accessible(e.tab, "the simulator's map")

	client, err := e.cloud.Client(leftby.Account)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	if _, err := client.ListNetworks(t.Context(), cloudstack.NetworkQuery{}); err != nil {
		t.Fatal(err)
	}
	e.view("timeline")
	e.until(`document.getElementById('timeline').textContent.includes('listNetworks')`)

	// What somebody else does in the cloud is a button of the object.
	e.view("map")
	for _, deed := range []struct{ kind, name, end, left string }{
		{"network", "fill", "no more addresses: asked for", "0"}, {"network", "lift", "limit of addresses: asked for", "Unlimited"},
		{"vm", "destroy", "This object is gone.", ""}, {"rule", "delete", "This object is gone.", ""}, {"address", "release", "This object is gone.", ""},
	} {
		e.choose(value[string](e.tab, `[...document.querySelectorAll('.box.object[data-kind=`+deed.kind+`]')].at(-1).dataset.id`))
		e.click("#details [data-focus=deed-" + deed.name + "]")
		e.until(`(document.getElementById('details').textContent + document.getElementById('announce').textContent).includes(` + quote(deed.end) + `)`)
		answer, err := e.cloud.Admin(t.Context(), "listAccounts", map[string]string{"listall": "true", "name": e.cloud.Objects().Networks[0].Owner})
		if got := answer["account"].([]any)[0].(map[string]any)["ipavailable"]; err != nil || deed.left != "" && got != deed.left {
			t.Errorf("after %s, the account may have %v more addresses: %v", deed.name, got, err)
		}
	}

	e.view("faults")
	const title = "Every call answers error 530, without effect"
	find := `[...document.querySelectorAll('#faults li button')].find((b) => b.textContent === ` + quote(title) + `)`
	e.do(chromedp.Evaluate[chromedp.Void](find + `.id = 'chosen'`))
	e.click("#faults [name=command]")
	e.press("listNet*")
	e.click("#chosen")
	e.until(find + `.getAttribute('aria-checked') === 'true'`)
	if _, err := client.ListNetworks(t.Context(), cloudstack.NetworkQuery{}); err == nil || !strings.Contains(err.Error(), "530") {
		t.Errorf("with the fault on, a call answers %v", err)
	}
	if _, err := client.ListZones(t.Context()); err != nil {
		t.Errorf("the fault hits another command: %v", err)
	}
	e.until(find + `.parentNode.textContent.includes('on, hits listNet*, ')`)
	const speed = `document.querySelector('select[name=speed]').value`
	e.until(speed + ` === '1'`)
	e.do(chromedp.Evaluate[chromedp.Void](`(() => { const s = document.querySelector('select[name=speed]'); s.value = '0.1'; s.dispatchEvent(new Event('change')) })()`))
	e.until(`document.title.endsWith('at 0.1 of its speed')`)
	if got := e.cloud.Speed(); got != 0.1 {
		t.Errorf("the simulator's speed is %v", got)
	}
	accessible(e.tab, "the simulator's faults")

	// Loaded again.
	base, _, _ := strings.Cut(e.url, "?")
	e.do(chromedp.Navigate(base + "?again=1#faults"))
	e.until(live)
	e.until(speed + ` === '0.1' && ` + find + `.getAttribute('aria-checked') === 'true'`)

	// Set elsewhere.
	if err := e.cloud.SetSpeed(20); err != nil {
		t.Fatal(err)
	}
	armed := e.cloud.Faults()
	if len(armed) != 1 || !e.cloud.Disarm(armed[0].ID) {
		t.Errorf("the faults are %v", armed)
	}
	other, err := simulator.ParseFault("listZones:error:code=431")
	if err != nil {
		t.Fatal(err)
	}
	e.cloud.Arm(other)
	e.until(speed + ` === '20' && ` + find + `.getAttribute('aria-checked') === 'false'`)
	e.until(`document.querySelector('select[name=speed]').selectedOptions[0].textContent === '20 times as fast'`)
	if on := e.texts("#faults li:has([aria-checked=true])"); len(on) != 1 || !slices.ContainsFunc(on, func(s string) bool { return strings.Contains(s, "listZones") }) {
		t.Errorf("switched on are %q", on)
	}
}
