// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"crypto/sha256"
	"encoding/base64"
	"html"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/csccm/csccm/pkg/ui/model"
)

const hostile = `</style></title><img src=x onerror="alert(1)"><script>alert(1)</script>`

func exported(t *testing.T, s model.Snapshot) string {
	t.Helper()
	var out strings.Builder
	require.NoError(t, Export(&out, s))
	return out.String()
}

func TestExportShowsAllParts(t *testing.T) {
	t.Parallel()
	objects := []model.Object{
		{
			ID:       "service/shop/web",
			Kind:     model.KindService,
			Name:     "web",
			Group:    "shop",
			Health:   model.HealthError,
			Why:      []string{"no address"},
			Commands: []string{"kubectl -n shop describe service web"},
		},
		{
			ID:     "address/a",
			Kind:   model.KindAddress,
			Name:   "203.0.113.7",
			Health: model.HealthOK,
			Facts:  []model.Fact{{Name: "ID", Value: "a-1"}},
		},
		{ID: "rule/r", Kind: model.KindRule, Name: "web-443", Label: "443/TCP", Health: model.HealthOK},
		{ID: "rule/old", Kind: model.KindRule, Name: "left-behind", Health: model.HealthOrphan},
		{ID: "node/n", Kind: model.KindNode, Name: "node-1", Group: "pool-a", Health: model.HealthOK},
		{ID: "vm/v", Kind: model.KindVM, Name: "vm-1", Health: model.HealthOK},
	}

	links := []model.Link{
		{From: "service/shop/web", To: "address/a"}, {From: "address/a", To: "rule/r"},
		{From: "rule/r", To: "node/n", Label: "30443"},
		{From: "rule/r", To: model.GroupID(model.KindNode, "pool-a")}, {From: "node/n", To: "vm/v"},
	}

	out := html.UnescapeString(exported(t, model.Snapshot{
		Title:   "Cluster prod",
		At:      time.Date(2026, 3, 14, 10, 30, 0, 0, time.UTC),
		Objects: objects,
		Links:   links,
		Checks: []model.Check{
			{
				Code:    "NODE-001",
				Status:  "error",
				Remedy:  "Run csccm taint.",
				Objects: []model.About{{ID: "node/n", Text: "Node node-1"}},
			},
		},
		Plans: []model.Plan{
			{Service: "service/shop/web", Actions: []model.Action{{Sign: "+", Label: "create firewall rule"}}},
		},
		Nodes:    []model.Node{{Name: "node-1", Kubelet: "not external", CloudStack: []string{"10.1.1.21"}}},
		Timeline: []model.Entry{{Kind: "leader", Reason: "LeaderElection", Message: "ccm-1 became leader"}},
		Missing: []model.Missing{
			{Part: "timeline", Reason: "the watch ended", Remedy: "Look at the controller's log."},
		},
	}))

	// The texts must appear in this order, because the order shows which object belongs below which.
	rest := out
	for _, text := range []string{
		"<title>Cluster prod</title>", "2026-03-14 10:30:00 UTC", `<path d="M160,19C180,19 180,19 200,19"/>`,
		`<svg x="400" y="0"`, "Services of shop", "✕ error", "web", "no address",
		"kubectl -n shop describe service web",
		"Plan:", "+ create firewall rule", "203.0.113.7", "a-1", "web-443", "443/TCP",
		`<a href="#o4">node-1</a> (30443)`, "all of pool-a",
		"Without a Service: load balancer rule", "○ orphan", "left-behind", "Nodes pool-a", `id="o4"`, "vm-1",
		"NODE-001", "Remedy: Run csccm taint.", "create firewall rule", "timeline could not be read: the watch ended",
		"LeaderElection", "not external", "10.1.1.21",
	} {
		_, after, found := strings.Cut(rest, text)
		require.True(t, found, "%q is not where it should be in\n%s", text, out)
		rest = after
	}
}

// TestExportIsSafe: the style is the one that the page's own policy allows, the policy allows nothing else, and texts
// of tenants are never read as HTML.
func TestExportIsSafe(t *testing.T) {
	t.Parallel()
	out := exported(t, model.Snapshot{
		Title: hostile,
		Objects: []model.Object{
			{ID: hostile, Kind: model.Kind(hostile), Name: hostile},
			{
				ID:       "service/x",
				Kind:     model.KindService,
				Name:     hostile,
				Group:    hostile,
				Health:   model.Health(hostile),
				Commands: []string{hostile},
			},
		},
		Links: []model.Link{{From: "service/x", To: hostile, Label: hostile}},
		Checks: []model.Check{
			{
				Code:    hostile,
				Status:  hostile,
				Objects: []model.About{{ID: hostile, Text: hostile}, {ID: "service/x", Text: hostile}},
				Link:    "javascript:alert(1)",
			},
		},
		Plans:   []model.Plan{{Service: "service/x", Refusal: hostile}},
		Nodes:   []model.Node{{Name: hostile, Health: model.Health(hostile)}},
		Missing: []model.Missing{{Part: "objects", Reason: hostile}},
	})

	style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(out)
	require.Len(t, style, 2)
	sum := sha256.Sum256([]byte(style[1]))
	require.Contains(t, html.UnescapeString(out),
		`content="default-src 'none'; style-src 'sha256-`+base64.StdEncoding.EncodeToString(sum[:])+`'"`)
	for _, tag := range []string{"<script", "<img", "<link", "<iframe", "javascript:"} {
		require.NotContains(t, out, tag)
	}

	for _, m := range regexp.MustCompile(`(?:href|src)="([^"]*)"`).FindAllStringSubmatch(out, -1) {
		require.Contains(t, out, `id="`+strings.TrimPrefix(m[1], "#")+`"`,
			"a link that leads out of the file, or nowhere")
	}
}

// TestExportOfSharedAddress: an object that many Services share is shown once, and cycles of links end.
func TestExportOfSharedAddress(t *testing.T) {
	t.Parallel()
	s := model.Snapshot{
		Objects: []model.Object{{ID: "address/a", Kind: model.KindAddress, Name: "203.0.113.7"}},
		Links:   []model.Link{{From: "address/a", To: "address/a"}},
	}
	for _, name := range []string{"x", "y"} {
		s.Objects = append(s.Objects, model.Object{ID: "service/" + name, Kind: model.KindService, Name: name})
		s.Links = append(s.Links, model.Link{From: "service/" + name, To: "address/a"})
	}
	out := exported(t, s)
	require.Equal(t, 1, strings.Count(out, `id="o0"`))
	require.Contains(t, out, `<a href="#o0">203.0.113.7</a> (above)`)
}
