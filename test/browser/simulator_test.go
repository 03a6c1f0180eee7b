// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	require.NoError(t, err)
	world, err := left.World()
	require.NoError(t, err)
	cloud, err := testenv.StartCloudStack(world)
	require.NoError(t, err)
	t.Cleanup(cloud.Stop)
	source := simpage.New(cloud.Simulator)
	e := &simulated{cloud: cloud}
	e.url = listen(t, server.Options{Source: source, Actions: source, Files: page.Files(), Interval: simpage.Interval})
	e.tab = newTab(t, l)
	e.do(chromedp.Navigate(e.url))
	e.until(live)
	return e
}

// TestSimulator: the simulator's page shows its world and its calls. Every tab, also one that opens later, shows a
// fault and the speed that were set on the page or elsewhere.
func TestSimulator(t *testing.T) {
	t.Parallel()
	e := showSimulator(t, desk)
	e.until(`['Addresses', 'Rules', 'VMs', 'Networks'].every((c) => [...document.querySelectorAll('.column h3')].some((h) =>
		h.textContent.trim().startsWith(c) && !/ 0$/.test(h.textContent.trim())))`)
	accessible(e.tab, "the simulator's map")
	client, err := e.cloud.Client(leftby.Account)
	require.NoError(t, err)
	defer client.CloseIdleConnections()
	_, err = client.ListNetworks(t.Context(), cloudstack.NetworkQuery{})
	require.NoError(t, err)
	e.play([]step{{"view timeline", "", `document.getElementById('timeline').textContent.includes('listNetworks')`}})

	// Each object has buttons for the events that can happen to it in the cloud.
	e.view("map")
	for _, deed := range []struct{ kind, name, end, left string }{
		{"network", "fill", "no more addresses: asked for", "0"},
		{"network", "lift", "limit of addresses: asked for", "Unlimited"},
		{"vm", "destroy", "This object is gone.", ""},
		{"rule", "delete", "This object is gone.", ""},
		{"address", "release", "This object is gone.", ""},
	} {
		e.choose(value[string](e.tab,
			`[...document.querySelectorAll('.box.object[data-kind=`+deed.kind+`]')].at(-1).dataset.id`))
		e.click("#details [data-focus=deed-" + deed.name + "]")
		e.until(`['details', 'announce'].some((id) => document.getElementById(id).textContent.includes(` +
			quote(deed.end) + `))`)
		owner := map[string]string{"listall": "true", "name": e.cloud.Objects().Networks[0].Owner}
		answer, err := e.cloud.Admin(t.Context(), "listAccounts", owner)
		require.NoError(t, err)
		if deed.left != "" {
			assert.Equal(t, deed.left, answer["account"].([]any)[0].(map[string]any)["ipavailable"], "after %s",
				deed.name)
		}
	}

	const title = "Every call answers error 530, without effect"
	find := `[...document.querySelectorAll('#faults li button')].find((b) => b.textContent === ` + quote(title) + `)`
	is := func(speed, armed string) string {
		return `document.querySelector('select[name=speed]').value === '` + speed + `' && ` +
			find + `.getAttribute('aria-checked') === '` + armed + `'`
	}
	e.play([]step{
		{"view faults", "", is("1", "false")},
		{"click #faults [name=command]", "", ""},
		{"type listNet*", "", ""},
		{find + `.click()`, "", is("1", "true")},
	})
	_, err = client.ListNetworks(t.Context(), cloudstack.NetworkQuery{})
	require.ErrorContains(t, err, "530")
	_, err = client.ListZones(t.Context())
	require.NoError(t, err, "the fault hits another command")
	e.play([]step{
		{"", "", find + `.parentNode.textContent.includes('on, hits listNet*, ')`},
		{set("select[name=speed]", "0.1"), "", `document.title.endsWith('at 0.1 of its speed')`},
	})
	require.InDelta(t, 0.1, e.cloud.Speed(), 0)
	accessible(e.tab, "the simulator's faults")

	// After a reload.
	base, _, _ := strings.Cut(e.url, "?")
	e.do(chromedp.Navigate(base + "?again=1#faults"))
	e.until(live)
	e.until(is("0.1", "true"))

	// After a change from elsewhere.
	require.NoError(t, e.cloud.SetSpeed(20))
	armed := e.cloud.Faults()
	require.Len(t, armed, 1)
	require.True(t, e.cloud.Disarm(armed[0].ID))
	other, err := simulator.ParseFault("listZones:error:code=431")
	require.NoError(t, err)
	e.cloud.Arm(other)
	e.until(is("20", "false"))
	e.until(`document.querySelector('select[name=speed]').selectedOptions[0].textContent === '20 times as fast'`)
	on := e.texts("#faults li:has([aria-checked=true])")
	require.Len(t, on, 1)
	require.Contains(t, on[0], "listZones")
}
