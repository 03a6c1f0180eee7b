// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package takeover

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/csccm/csccm/installer/commands/migrate"
	"github.com/csccm/csccm/installer/kube/cluster"
)

// RecordConfigMap keeps the newest record in the cluster.
const RecordConfigMap = "csccm-takeover"

const recordVersion = 2

// Record is what was before a takeover. It holds no secret.
type Record struct {
	SchemaVersion int           `json:"schemaVersion"`
	Time          time.Time     `json:"time"`
	Server        string        `json:"server"`
	Predecessors  []Predecessor `json:"predecessors"`
	Services      []ServicePlan `json:"services"`
	// Lease is the one that csccm's controller uses.
	Lease LeaseName `json:"lease"`
	// Rules are the renames and deletions that were to come.
	Rules []migrate.Step `json:"rules,omitempty"`
	// Pinned are the annotations that csccm set, with the values before.
	Pinned []PinRecord `json:"pinned,omitempty"`
}

// PinRecord is one annotation that csccm set.
type PinRecord struct {
	Service    string  `json:"service"`
	Annotation string  `json:"annotation"`
	Value      string  `json:"value"`
	Before     *string `json:"before"` // null when it was not set
}

// file names a file of this run.
func (t *Taker) file(what, extension string) string {
	return filepath.Join(t.Dir, "takeover-"+what+"-"+t.Clock.Now().UTC().Format("20060102T150405.000Z")+"."+extension)
}

// record writes what was: into a file, and into a ConfigMap beside the controller.
func (t *Taker) record(ctx context.Context) error {
	if err := t.Check(); err != nil {
		return err
	}
	t.Progress.Step("Record of what was")
	r := Record{
		SchemaVersion: recordVersion, Time: t.Clock.Now().UTC(), Server: t.Server, Predecessors: t.Plan.Predecessors, Services: t.Plan.Services,
		Lease: t.Plan.Own.Lease, Rules: t.Plan.Rules.Steps,
	}
	pins, err := t.pins(ctx)
	if err != nil {
		return err
	}
	r.Pinned = pins
	body, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(t.Dir, 0o700); err != nil {
		return fmt.Errorf("%w; nothing has been changed", err)
	}
	path := t.file("record", "json")
	if err := os.WriteFile(path, append(body, '\n'), 0o600); err != nil {
		return fmt.Errorf("%w; nothing has been changed", err)
	}
	if err := t.keep(ctx, string(body)); err != nil {
		return err
	}
	t.Progress.Done("%s, and ConfigMap %s/%s", path, t.Namespace, RecordConfigMap)
	return nil
}

// keep adds a record to the ConfigMap: a second run must not hide what the first one found.
func (t *Taker) keep(ctx context.Context, body string) error {
	key := t.Clock.Now().UTC().Format("20060102T150405.000Z") + ".json"
	err := cluster.ChangeConfigMap(ctx, t.Kube, t.Namespace, RecordConfigMap, func(c *corev1.ConfigMap) error {
		const most = 5 // a ConfigMap holds at most 1 MiB
		for len(c.Data) >= most {
			delete(c.Data, slices.Max(slices.Collect(maps.Keys(c.Data)))) // the first is the state before everything: it stays
		}
		c.Data[key] = body
		return nil
	})
	if err != nil {
		return fmt.Errorf("keeping the record in ConfigMap %s/%s: %w; nothing else has been changed", t.Namespace, RecordConfigMap, err)
	}
	return nil
}

// pins are the annotations to set, with what is there now.
func (t *Taker) pins(ctx context.Context) ([]PinRecord, error) {
	var out []PinRecord
	for i := range t.Plan.Services {
		s := &t.Plan.Services[i]
		if !Named(t.Pin, s.Service) {
			continue
		}
		namespace, name, _ := strings.Cut(s.Service, "/")
		for j := range s.Differences {
			d := &s.Differences[j]
			if !d.Consent || d.Pin == nil {
				continue
			}
			svc, err := t.Kube.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return nil, fmt.Errorf("reading Service %s: %w", s.Service, err)
			}
			r := PinRecord{Service: s.Service, Annotation: d.Pin.Annotation, Value: d.Pin.Value}
			if v, set := svc.Annotations[r.Annotation]; set {
				r.Before = &v
			}
			out = append(out, r)
		}
	}
	return out, nil
}

// pin sets the annotations that keep the current state. The old controllers do not heed these values, so
// nothing happens before the new one leads.
func (t *Taker) pin(ctx context.Context) error {
	if err := t.Check(); err != nil {
		return err
	}
	pins, err := t.pins(ctx)
	if err != nil || len(pins) == 0 {
		return err
	}
	t.Progress.Step("Annotations that keep the current state")
	for _, p := range pins {
		if err := t.annotate(ctx, &p, &p.Value); err != nil {
			return err
		}
		t.Progress.Info("%s: %s=%q", p.Service, p.Annotation, p.Value)
	}
	t.Progress.Done("")
	return nil
}

// annotate gives the annotation of a pin a value; nil removes it.
func (t *Taker) annotate(ctx context.Context, p *PinRecord, value *string) error {
	namespace, name, _ := strings.Cut(p.Service, "/")
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]*string{p.Annotation: value}}})
	if err == nil {
		_, err = t.Kube.CoreV1().Services(namespace).Patch(ctx, name, types.MergePatchType, patch, byCSCCM)
	}
	if err != nil {
		return fmt.Errorf("annotating Service %s: %w", p.Service, err)
	}
	return nil
}
