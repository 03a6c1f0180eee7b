// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/json"
	"net"
	"time"

	"github.com/csccm/csccm/pkg/simulator/internal/store"
)

// Timestamp is a time in CloudStack's format, such as 2025-01-31T12:34:56+0000.
type Timestamp time.Time

// MarshalJSON implements json.Marshaler.
func (t Timestamp) MarshalJSON() ([]byte, error) {
	return time.Time(t).UTC().AppendFormat(nil, `"2006-01-02T15:04:05+0000"`), nil
}

// Stamp returns a time for an answer, or nil for the zero time.
func Stamp(t time.Time) *Timestamp {
	if t.IsZero() {
		return nil
	}
	v := Timestamp(t)
	return &v
}

// Ptr returns a pointer to v.
func Ptr[T any](v T) *T { return &v }

// Object returns the answer of a command for one object: {"name": v}.
func Object(name string, v any) map[string]any { return map[string]any{name: v} }

// Success is the jobresult of commands without an object, and the body of such synchronous commands.
type Success struct {
	Success bool `json:"success"`
}

// Submitted is the answer of an asynchronous command.
type Submitted struct {
	ID    string `json:"id,omitempty"`
	JobID string `json:"jobid"`
}

// OwnerView holds the fields that describe an owner: the account or project, and the domain.
type OwnerView struct {
	Account    string `json:"account,omitempty"`
	ProjectID  string `json:"projectid,omitempty"`
	Project    string `json:"project,omitempty"`
	DomainID   string `json:"domainid,omitempty"`
	Domain     string `json:"domain,omitempty"`
	DomainPath string `json:"domainpath,omitempty"`
}

// ViewOwner renders the owner of an object.
func ViewOwner(a *store.Account) OwnerView {
	v := OwnerView{DomainID: a.Domain.UUID, Domain: a.Domain.Name, DomainPath: a.Domain.Display()}
	if a.Project != nil {
		v.ProjectID, v.Project = a.Project.UUID, a.Project.Name
	} else {
		v.Account = a.Name
	}
	return v
}

// TagView is a tag in the answer of its resource.
type TagView struct {
	Key          string `json:"key"`
	Value        string `json:"value"`
	ResourceType string `json:"resourcetype,omitempty"`
	ResourceID   string `json:"resourceid,omitempty"`
	Customer     string `json:"customer,omitempty"`
	OwnerView
}

// ViewTags returns the tags of a resource, with key and value only.
func ViewTags(t *store.Tagged) []TagView {
	out := make([]TagView, 0, len(t.Tags))
	for _, g := range t.Tags {
		out = append(out, TagView{Key: g.Key, Value: g.Value})
	}
	return out
}

// JobRef holds the pending job of an object, as lists show it.
type JobRef struct {
	JobID     string `json:"jobid,omitempty"`
	JobStatus *int   `json:"jobstatus,omitempty"`
}

// ViewJobRef returns the pending job of an object, if any.
func ViewJobRef(st *store.State, subject any) JobRef {
	if len(st.Due) == 0 && st.Running == nil {
		return JobRef{}
	}
	if j := st.PendingOn(subject); j != nil {
		return JobRef{JobID: j.UUID, JobStatus: Ptr(store.JobPending)}
	}
	return JobRef{}
}

// Netmask formats a prefix length as an IPv4 netmask.
func Netmask(bits int) string { return net.IP(net.CIDRMask(bits, 32)).String() }

// Encode writes JSON like CloudStack, without HTML escapes.
func Encode(buf *bytes.Buffer, v any) error {
	if l, ok := v.(ListAnswer); ok {
		return l.encode(buf) // not a json.Marshaler, because the encoder would scan the answer a second time
	}
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	buf.Truncate(buf.Len() - 1) // Encode ends with a newline
	return nil
}

// Marshal returns v as JSON like CloudStack, without HTML escapes.
func Marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	if err := Encode(&buf, v); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}
