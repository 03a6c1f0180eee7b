// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/csccm/csccm/installer/commands/migrate"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/plural"
)

// UndoPlan is the way back from a takeover, complete enough to be shown and agreed to. It holds no secret.
type UndoPlan struct {
	SchemaVersion int       `json:"schemaVersion"`
	Taken         time.Time `json:"taken"` // when the takeover began
	// Ours are csccm's workloads, which end first: kind namespace/name.
	Ours []string `json:"ours"`
	// Lease is held while no controller acts.
	Lease LeaseName `json:"lease"`
	// Predecessors are what starts again, with the number of Pods that it wanted.
	Predecessors []Predecessor `json:"predecessors"`
	// Rules get their names of before.
	Rules []migrate.Step `json:"rules"`
	// Annotations get their values of before.
	Annotations []PinRecord `json:"annotations"`
	// Stays is what is not set back, and why.
	Stays    []string  `json:"stays,omitempty"`
	Problems []Problem `json:"problems,omitempty"`

	ours    []Predecessor
	project string // id of the rules' project
}

// ReadRecords reads what the runs of a takeover recorded, the first first. Errors of the API server are as it sent them;
// without a record it is an error.
func ReadRecords(ctx context.Context, kube kubernetes.Interface, namespace string) ([]Record, error) {
	c, err := kube.CoreV1().ConfigMaps(namespace).Get(ctx, RecordConfigMap, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	var out []Record
	for key, body := range c.Data {
		var r Record
		if err := json.Unmarshal([]byte(body), &r); err != nil || r.SchemaVersion != recordVersion {
			return nil, report.Remedied(fmt.Errorf("ConfigMap %s/%s: %s is no record of a takeover that this csccm can read", namespace, RecordConfigMap, key), "go back with the csccm that took over")
		}
		out = append(out, r)
	}
	if len(out) == 0 {
		return nil, &report.Error{
			What: fmt.Sprintf("ConfigMap %s/%s holds no record of a takeover", namespace, RecordConfigMap),
			Fix:  "name the namespace of csccm's release with --namespace; where no takeover was, or one was undone, there is nothing to undo",
		}
	}
	slices.SortFunc(out, func(a, b Record) int { return a.Time.Compare(b.Time) })
	return out, nil
}

// NewUndoPlan decides. It is pure. A takeover that ended early and went on has several records: the first says how it was.
func NewUndoPlan(records []Record, f *Facts) *UndoPlan {
	earliest := &records[0]
	p := &UndoPlan{
		SchemaVersion: 1, Taken: earliest.Time, Lease: cmp.Or(earliest.Lease, DefaultLease), project: f.project,
		Ours: []string{}, Predecessors: []Predecessor{}, Rules: []migrate.Step{}, Annotations: []PinRecord{},
	}
	for i := range f.own {
		own := &f.own[i]
		p.Ours = append(p.Ours, own.String())
		p.ours = append(p.ours, *own)
		if own.HelmRelease == "" {
			p.Problems = append(p.Problems, Problem{
				own.String() + " is of no Helm release: what applied it would start it again beside the old controller",
				"take csccm's chart out of what applies it, delete " + own.String() + ", then run the command again",
			})
		}
	}
	if len(p.ours) > 0 {
		p.Lease = f.Own.Lease
	}
	p.rules(records, f)
	p.predecessors(records, f)
	p.annotations(records, f)
	for i := range earliest.Services {
		s := &earliest.Services[i]
		for j := range s.Differences {
			if d := &s.Differences[j]; d.Consent && !p.pinned(records, s.Service, d) {
				p.Stays = append(p.Stays, fmt.Sprintf("%s: what was agreed to is not changed back by csccm: %s", s.Service, d.Text))
			}
		}
	}
	return p
}

func (p *UndoPlan) pinned(records []Record, service string, d *Difference) bool {
	return d.Pin != nil && slices.ContainsFunc(records, func(r Record) bool {
		return slices.ContainsFunc(r.Pinned, func(x PinRecord) bool { return x.Service == service && x.Annotation == d.Pin.Annotation })
	})
}

// rules are those that still have the names that the takeover gave them.
func (p *UndoPlan) rules(records []Record, f *Facts) {
	now := map[string]*migrate.Rule{}
	for i := range f.Rules {
		now[f.Rules[i].ID] = &f.Rules[i]
	}
	for _, s := range first(records, func(r *Record) []migrate.Step { return r.Rules }, func(s *migrate.Step) string { return s.RuleID }) {
		r := now[s.RuleID]
		switch {
		case s.Action == migrate.ActionDelete:
			if r == nil {
				p.Stays = append(p.Stays, fmt.Sprintf("rule %s, which another one of the same port served beside, stays deleted", s.From))
			}
		case r == nil:
			p.Stays = append(p.Stays, fmt.Sprintf("rule %s is gone by now", s.From))
		case r.Name == s.From: // never renamed, or back already
		case r.Name != s.To:
			p.Stays = append(p.Stays, fmt.Sprintf("rule %s, which was %s, has a third name by now and keeps it", r.Name, s.From))
		default:
			p.Rules = append(p.Rules, migrate.Step{
				Action: migrate.ActionRename, RuleID: s.RuleID, From: s.To, To: s.From, Protocol: cmp.Or(r.Protocol, s.Protocol),
				Algorithm: r.Algorithm, PublicIP: r.PublicIP, Port: r.PublicPort, Service: s.Service,
			})
		}
	}
}

// first returns what the records hold, each thing as the first record that has it says: that is how it was.
func first[T any](records []Record, of func(*Record) []T, key func(*T) string) []T {
	var out []T
	seen := map[string]bool{}
	for i := range records {
		for _, x := range of(&records[i]) {
			if k := key(&x); !seen[k] {
				seen[k] = true
				out = append(out, x)
			}
		}
	}
	return out
}

// predecessors are the controllers that the takeover stopped. One that it removed cannot be made again: the record holds
// no manifest.
func (p *UndoPlan) predecessors(records []Record, f *Facts) {
	at := map[string]int{}
	for i := range records {
		for _, old := range records[i].Predecessors {
			if old.Family != Apache && old.Family != Leaseweb {
				continue
			}
			if j, known := at[old.String()]; known {
				p.Predecessors[j].Wanted = max(p.Predecessors[j].Wanted, old.Wanted)
				continue
			}
			at[old.String()] = len(p.Predecessors)
			p.Predecessors = append(p.Predecessors, old)
		}
	}
	for i := range p.Predecessors {
		old := &p.Predecessors[i]
		j := slices.IndexFunc(f.Predecessors, func(x Predecessor) bool { return x.String() == old.String() })
		switch {
		case j < 0:
			p.Problems = append(p.Problems, Problem{
				fmt.Sprintf("%s was removed: the takeover was without --keep-old", old),
				fmt.Sprintf("apply its manifest again with no Pods (%s), then run the command again", noPods(old.Kind)),
			})
		case f.Predecessors[j].Wanted > 0 && (len(p.ours) > 0 || len(p.Rules) > 0):
			p.Problems = append(p.Problems, Problem{
				fmt.Sprintf("%s runs already, before csccm's controller has ended and the rules have its names", old),
				fmt.Sprintf("stop it first (%s), then run the command again", noPods(old.Kind)),
			})
		default:
			old.selector = f.Predecessors[j].selector
		}
	}
}

func noPods(kind string) string {
	if kind == "DaemonSet" {
		return "nodeSelector " + stoppedSelector + `: "true"`
	}
	return "replicas: 0"
}

// annotations are those that still have the values that the takeover set.
func (p *UndoPlan) annotations(records []Record, f *Facts) {
	services := map[string]*corev1.Service{}
	for i := range f.Services {
		services[f.Services[i].Namespace+"/"+f.Services[i].Name] = &f.Services[i]
	}
	pins := first(records, func(r *Record) []PinRecord { return r.Pinned }, func(p *PinRecord) string { return p.Service + " " + p.Annotation })
	for _, pin := range pins {
		svc := services[pin.Service]
		if svc == nil {
			continue
		}
		value, set := svc.Annotations[pin.Annotation]
		switch {
		case set == (pin.Before != nil) && (!set || value == *pin.Before): // back already
		case set && value == pin.Value:
			p.Annotations = append(p.Annotations, pin)
		default:
			p.Stays = append(p.Stays, fmt.Sprintf("%s: somebody changed annotation %s since; it stays", pin.Service, pin.Annotation))
		}
	}
}

// Needed reports whether anything is left to do.
func (p *UndoPlan) Needed() bool {
	return len(p.Ours)+len(p.Rules)+len(p.Annotations) > 0 ||
		slices.ContainsFunc(p.Predecessors, func(old Predecessor) bool { return old.Wanted > 0 })
}

// started says what of a predecessor is wanted again.
func started(old *Predecessor) string {
	if old.Kind == "DaemonSet" {
		return "on its nodes again"
	}
	return strings.TrimSpace("with " + plural.Count(int(old.Wanted), "Pod") + " again")
}
