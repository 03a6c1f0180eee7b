// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/ui/model"
)

var (
	//go:embed export/page.html
	exportPage string
	//go:embed export/style.css
	exportStyle string
)

// shownLinks is how many links of an object are listed, so that a rule with a thousand nodes stays one line.
const shownLinks = 10

// Export writes s as one HTML file that needs no script, no other file and no connection.
func Export(w io.Writer, s model.Snapshot) error {
	e, counts := newExport(s), map[model.Health]int{}
	for i := range s.Objects {
		counts[s.Objects[i].Health]++
	}

	groups := e.groups()
	sum := sha256.Sum256([]byte(exportStyle))
	page, err := template.New("page").Funcs(template.FuncMap{
		"anchor": func(id string) string { return e.anchors[id] },
		"name":   func(id string) string { return cmp.Or(e.objects[id].Name, id) },
		"symbol": func(h any) string { return healthSymbols[fmt.Sprint(h)] },
		"kind":   func(k model.Kind) string { return cmp.Or(kindNames[k], string(k)) },
		"time":   func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
		"missing": func(part string) []model.Missing {
			return slices.DeleteFunc(slices.Clone(s.Missing), func(m model.Missing) bool { return m.Part != part })
		},
	}).Parse(exportPage)
	if err != nil {
		return err
	}

	style := template.CSS(exportStyle) //nolint:gosec // our own
	return page.Execute(w, struct {
		model.Snapshot
		Style    template.CSS
		StyleSum string
		Counts   map[model.Health]int
		Groups   []itemGroup
		Drawing  *drawing
	}{s, style, "sha256-" + base64.StdEncoding.EncodeToString(sum[:]), counts, groups, e.draw(groups)})
}

var healthSymbols = map[string]string{
	string(model.HealthOK):      "✓",
	string(model.HealthPending): "…",
	string(model.HealthWarning): "!",
	string(model.HealthError):   "✕",
	string(model.HealthOrphan):  "○",
	string(model.HealthForeign): "◇",
	string(model.HealthPlanned): "+",
	"skipped":                   "–",
}

var kindNames = map[model.Kind]string{
	model.KindService: "Service", model.KindAddress: "address", model.KindRule: "load balancer rule",
	model.KindForward: "port forwarding rule", model.KindNode: "Node", model.KindVM: "VM", model.KindNetwork: "network",
}

type itemGroup struct {
	Title string
	Items []item
}

// item is an object with the objects that it links to.
type item struct {
	model.Object
	Open      bool // it, or an object below it, is not healthy
	Again     bool // it was shown above
	Plan      *model.Plan
	Children  []item
	Elsewhere []end // links to objects that are not among the children
	More      int   // ends that are not listed
}

// end is the other end of a link: an object, or all objects of a group.
type end struct{ ID, Group, Label string }

type export struct {
	s       model.Snapshot
	objects map[string]model.Object
	anchors map[string]string
	links   map[string][]model.Link // by their beginning
	plans   map[string]*model.Plan
	shown   map[string]bool
}

func newExport(s model.Snapshot) *export {
	e := &export{s, map[string]model.Object{}, map[string]string{}, map[string][]model.Link{}, map[string]*model.Plan{},
		map[string]bool{}}
	for i, o := range s.Objects {
		e.objects[o.ID], e.anchors[o.ID] = o, fmt.Sprintf("o%d", i)
	}
	for _, l := range s.Links {
		e.links[l.From] = append(e.links[l.From], l)
	}
	for i, p := range s.Plans {
		e.plans[p.Service] = &s.Plans[i]
	}
	return e
}

// below lists the kinds below which an object is listed: addresses and rules below their Service, a VM below its node.
var below = map[model.Kind][]model.Kind{
	model.KindAddress: {model.KindService}, model.KindRule: {model.KindService, model.KindAddress},
	model.KindForward: {model.KindService, model.KindAddress}, model.KindVM: {model.KindNode},
}

func (e *export) item(o model.Object) item {
	out := item{Object: o, Plan: e.plans[o.ID], Open: o.Health != model.HealthOK}
	if e.shown[o.ID] {
		return item{Object: o, Again: true, Open: out.Open}
	}

	e.shown[o.ID] = true
	for _, l := range e.links[o.ID] {
		other, ok := e.objects[l.To]
		switch {
		case ok && slices.Contains(below[other.Kind], o.Kind):
			child := e.item(other)
			out.Open = out.Open || child.Open
			out.Children = append(out.Children, child)
		case len(out.Elsewhere) == shownLinks:
			out.More++
		case ok:
			out.Elsewhere = append(out.Elsewhere, end{ID: l.To, Label: l.Label})
		default:
			out.Elsewhere = append(out.Elsewhere, end{Group: groupName(l.To), Label: l.Label})
		}
	}

	return out
}

// groupName returns the group in a model.GroupID.
func groupName(id string) string {
	if parts := strings.SplitN(id, "/", 3); len(parts) == 3 && parts[0] == "group" {
		return cmp.Or(parts[2], "no group")
	}
	return id
}

// groups returns the objects as a tree: Services by namespace, objects without a Service, nodes by pool, and the rest.
func (e *export) groups() []itemGroup {
	var out []itemGroup
	add := func(kind model.Kind, title string) {
		byGroup := map[string][]model.Object{}
		for _, o := range e.s.Objects {
			if o.Kind == kind && !e.shown[o.ID] {
				byGroup[o.Group] = append(byGroup[o.Group], o)
			}
		}
		for _, group := range slices.Sorted(maps.Keys(byGroup)) {
			g := itemGroup{Title: strings.TrimSpace(title + " " + group)}
			for _, o := range byGroup[group] {
				g.Items = append(g.Items, e.item(o))
			}
			out = append(out, g)
		}
	}

	add(model.KindService, "Services of")
	for _, kind := range []model.Kind{model.KindAddress, model.KindRule, model.KindForward} {
		add(kind, "Without a Service: "+kindNames[kind])
	}

	add(model.KindNode, "Nodes")
	add(model.KindVM, "VMs without a Node")
	add(model.KindNetwork, "Networks")
	for _, o := range e.s.Objects {
		if !e.shown[o.ID] {
			add(o.Kind, "Others")
		}
	}

	return out
}
