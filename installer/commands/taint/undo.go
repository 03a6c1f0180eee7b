// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package taint

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/csccm/csccm/installer/kube/cluster"
)

// SnapshotConfigMap keeps the first snapshot in the cluster, for an undo from another machine.
const (
	SnapshotConfigMap = "csccm-nodes-before-taint"
	snapshotKey       = "nodes.json.gz"
)

// writtenLabels are the labels that the controller writes when it initialises a node.
func writtenLabels() []string {
	return []string{
		corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelInstanceTypeStable,
		corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion, corev1.LabelInstanceType,
	}
}

// Keep puts the snapshot into a ConfigMap. One that is there stays: it is older, from before the
// first node was changed; nodes that it does not know are added.
func (s *Snapshot) Keep(ctx context.Context, kube kubernetes.Interface, namespace string) error {
	err := cluster.ChangeConfigMap(ctx, kube, namespace, SnapshotConfigMap, func(c *corev1.ConfigMap) error {
		merged := *s
		if len(c.BinaryData) > 0 {
			old, err := unpackSnapshot(c)
			if err != nil {
				return err
			}
			merged = *old
			for i := range s.Nodes {
				if !slices.ContainsFunc(old.Nodes, func(n NodeSnapshot) bool { return n.UID == s.Nodes[i].UID }) {
					merged.Nodes = append(merged.Nodes, s.Nodes[i])
				}
			}
		}
		body, err := merged.pack()
		c.BinaryData = map[string][]byte{snapshotKey: body}
		return err
	})
	if err != nil {
		return fmt.Errorf("keeping the snapshot of the nodes in ConfigMap %s/%s: %w; nothing else was changed", namespace, SnapshotConfigMap, err)
	}
	return nil
}

// pack holds only what an undo needs: a ConfigMap holds at most 1 MiB.
func (s *Snapshot) pack() ([]byte, error) {
	small := *s
	small.Nodes = nil
	for i := range s.Nodes {
		n := s.Nodes[i]
		labels := map[string]string{}
		for _, key := range writtenLabels() {
			if v, set := n.Labels[key]; set {
				labels[key] = v
			}
		}
		n.Labels = labels
		small.Nodes = append(small.Nodes, n)
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := json.NewEncoder(z).Encode(small); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

const maxSnapshot = 64 << 20

func unpackSnapshot(c *corev1.ConfigMap) (*Snapshot, error) {
	z, err := gzip.NewReader(bytes.NewReader(c.BinaryData[snapshotKey]))
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %s/%s holds no snapshot of nodes: %w", c.Namespace, c.Name, err)
	}
	return decodeSnapshot(io.LimitReader(z, maxSnapshot), "ConfigMap "+c.Namespace+"/"+c.Name)
}

// ReadSnapshot reads the snapshot in the cluster.
func ReadSnapshot(ctx context.Context, kube kubernetes.Interface, namespace string) (*Snapshot, error) {
	c, err := kube.CoreV1().ConfigMaps(namespace).Get(ctx, SnapshotConfigMap, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("no snapshot of the nodes in the cluster: %w", err)
	}
	return unpackSnapshot(c)
}

// ReadSnapshotFile reads a snapshot that was written to a file.
func ReadSnapshotFile(path string) (*Snapshot, error) {
	f, err := os.Open(path) // #nosec G304 -- the user names it
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return decodeSnapshot(f, path)
}

func decodeSnapshot(r io.Reader, from string) (*Snapshot, error) {
	s := &Snapshot{}
	if err := json.NewDecoder(r).Decode(s); err != nil || s.SchemaVersion != 1 {
		return nil, fmt.Errorf("%s is no snapshot of nodes by csccm", from)
	}
	return s, nil
}

// Undone is what an undo did to a node, or would do.
type Undone struct {
	Node string `json:"node"`
	// Taint: our own taint is still there and goes. Labels are those that are set back.
	Taint  bool        `json:"taint,omitempty"`
	Labels []LabelBack `json:"labels,omitempty"`
	// Skipped says why nothing is done.
	Skipped string `json:"skipped,omitempty"`
	// KeepsProviderID is the provider ID that it got since: the API server lets nobody change or clear it.
	KeepsProviderID string `json:"keepsProviderID,omitempty"`
}

// LabelBack is a label that is set back.
type LabelBack struct {
	Label string `json:"label"`
	Now   string `json:"now,omitempty"`
	Back  string `json:"back,omitempty"` // "" = it is removed
}

func (l LabelBack) String() string {
	switch {
	case l.Back == "":
		return fmt.Sprintf("%s=%s is removed", l.Label, l.Now)
	case l.Now == "":
		return fmt.Sprintf("%s=%s is set", l.Label, l.Back)
	}
	return fmt.Sprintf("%s from %s to %s", l.Label, l.Now, l.Back)
}

// Changes reports whether anything of the node is set back.
func (u *Undone) Changes() bool { return u.Skipped == "" && (u.Taint || len(u.Labels) > 0) }

// PlanUndo returns what Undo would do. It changes nothing.
func (e *Executor) PlanUndo(ctx context.Context, s *Snapshot) ([]Undone, error) {
	return e.undo(ctx, s, func(context.Context, *NodeSnapshot) error { return nil })
}

// Undo takes our own taints back and sets the labels back that the controller wrote. Only nodes that
// csccm tainted are touched. Running again is harmless.
func (e *Executor) Undo(ctx context.Context, s *Snapshot) ([]Undone, error) {
	return e.undo(ctx, s, e.restore)
}

func (e *Executor) undo(ctx context.Context, s *Snapshot, do func(context.Context, *NodeSnapshot) error) ([]Undone, error) {
	out := []Undone{}
	for i := range s.Nodes {
		was := &s.Nodes[i]
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
		n, err := e.Kube.CoreV1().Nodes().Get(ctx, was.Name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return out, fmt.Errorf("reading node %s: %w", was.Name, err)
		}
		u := Undone{Node: was.Name, Skipped: "is gone"}
		if err == nil {
			u = undone(n, was)
		}
		if u.Changes() || u.Skipped == "" { // the mark goes in any case
			if err := do(context.WithoutCancel(ctx), was); err != nil {
				return out, err
			}
		}
		out = append(out, u)
	}
	return out, nil
}

// undone decides what is set back of a node.
func undone(n *corev1.Node, was *NodeSnapshot) Undone {
	u := Undone{Node: was.Name}
	switch {
	case string(n.UID) != was.UID:
		u.Skipped = "is another node of this name"
		return u
	case n.Annotations[MarkAnnotation] == "":
		u.Skipped = "was not tainted by csccm"
		return u
	}
	u.Taint = ownTaint(n) >= 0
	if n.Spec.ProviderID != was.ProviderID {
		u.KeepsProviderID = n.Spec.ProviderID
	}
	for _, key := range writtenLabels() {
		before, had := was.Labels[key]
		if now, has := n.Labels[key]; had != has || now != before {
			u.Labels = append(u.Labels, LabelBack{Label: key, Now: now, Back: before})
		}
	}
	return u
}

// restore sets the labels back, and takes taint and mark away, in one patch.
func (e *Executor) restore(ctx context.Context, was *NodeSnapshot) error {
	return e.patch(ctx, was.Name, "setting back", func(n *corev1.Node) []patchOp {
		var ops []patchOp
		for _, l := range undone(n, was).Labels {
			path := "/metadata/labels/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(l.Label)
			if _, had := was.Labels[l.Label]; had {
				ops = append(ops, patchOp{"add", path, l.Back})
			} else {
				ops = append(ops, patchOp{Op: "remove", Path: path})
			}
		}
		return append(ops, withoutMark(n)...)
	})
}
