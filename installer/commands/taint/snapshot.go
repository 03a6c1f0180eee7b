// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package taint

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// NodeSnapshot is what the controller may change on a node, as it was before.
type NodeSnapshot struct {
	Name       string               `json:"name"`
	UID        string               `json:"uid"`
	ProviderID string               `json:"providerID,omitempty"`
	Labels     map[string]string    `json:"labels,omitempty"`
	Taints     []corev1.Taint       `json:"taints,omitempty"`
	Addresses  []corev1.NodeAddress `json:"addresses,omitempty"`
}

// Snapshot is the nodes at one time.
type Snapshot struct {
	SchemaVersion int            `json:"schemaVersion"`
	Taken         time.Time      `json:"taken"`
	Server        string         `json:"server"`
	Nodes         []NodeSnapshot `json:"nodes"`
}

// TakeSnapshot extracts what is worth keeping.
func TakeSnapshot(nodes []corev1.Node, server string, now time.Time) *Snapshot {
	s := &Snapshot{SchemaVersion: 1, Taken: now.UTC(), Server: server}
	for i := range nodes {
		n := &nodes[i]
		s.Nodes = append(s.Nodes, NodeSnapshot{
			Name: n.Name, UID: string(n.UID), ProviderID: n.Spec.ProviderID,
			Labels: n.Labels, Taints: n.Spec.Taints, Addresses: n.Status.Addresses,
		})
	}
	return s
}

// Write puts the snapshot into a new file of dir and returns its path.
func (s *Snapshot) Write(dir string) (string, error) {
	path := filepath.Join(dir, "nodes-"+s.Taken.Format("20060102T150405Z")+".json")
	body, err := json.MarshalIndent(s, "", "  ")
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = os.WriteFile(path+".new", append(body, '\n'), 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path) // whole, or not there
	}
	if err != nil {
		_ = os.Remove(path + ".new") // the first error is the one to tell
		return "", fmt.Errorf("writing the snapshot of the nodes: %w", err)
	}
	return path, nil
}
