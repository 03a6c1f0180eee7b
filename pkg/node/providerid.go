// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package node implements what concerns Nodes. Pure functions map Nodes to VMs: provider IDs, names, addresses, labels,
// load balancer members. Nodes serves the framework's Node controllers and runs two controllers of csccm.
package node

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Kind is the kind of a provider ID. It shows which component wrote the ID.
type Kind string

// Kinds of provider IDs that occur in clusters on CloudStack.
const (
	KindNone       Kind = ""                    // the Node has no provider ID
	KindExternal   Kind = "external-cloudstack" // upstream's provider and csccm
	KindCloudStack Kind = "cloudstack"          // Cluster API, the old in-tree provider
	KindForeign    Kind = "foreign"             // any other scheme, such as k3s or rke2 with the Node's name as ID
)

// IsCloudStack reports whether a provider ID of this kind contains the ID of a CloudStack VM.
func (k Kind) IsCloudStack() bool { return k == KindExternal || k == KindCloudStack }

// Form is the format of new provider IDs.
type Form string

// Formats of new provider IDs. A Node's provider ID cannot be changed once it is set, so the format only matters for
// Nodes without a provider ID.
const (
	FormUpstream   Form = "external-cloudstack" // external-cloudstack://ID
	FormClusterAPI Form = "cloudstack"          // cloudstack:///ID
)

// ParseForm parses the value of --provider-id-format. It accepts the scheme with or without "://" and slashes.
func ParseForm(s string) (Form, error) {
	return oneOf("provider id format", strings.TrimRight(strings.TrimSpace(s), ":/"), FormUpstream, FormClusterAPI)
}

// oneOf returns the known value that equals text. An empty text selects the first known value, the default.
func oneOf[T ~string](what, text string, known ...T) (T, error) {
	switch value := T(strings.TrimSpace(text)); {
	case value == "":
		return known[0], nil
	case slices.Contains(known, value):
		return value, nil
	}
	return "", fmt.Errorf("%s %q is not known: use one of %q, the first is the default", what, text, known)
}

// vmID matches CloudStack's IDs. Everything else is rejected: an ID that the server cannot parse must never lead to
// "this VM does not exist".
var vmID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// ProviderIDError means that a provider ID with a CloudStack scheme, or without any scheme, is invalid.
type ProviderIDError struct {
	ProviderID string
	Reason     string
}

func (e *ProviderIDError) Error() string {
	return fmt.Sprintf("provider id %q, which is the kubelet's --provider-id: %s: want %s or %s", e.ProviderID,
		e.Reason, ProviderID(FormUpstream, "VM-ID"), ProviderID(FormClusterAPI, "VM-ID"))
}

// RemedyProviderID is what to do about a *ProviderIDError.
const RemedyProviderID = "correct the kubelet's --provider-id, or providerID in its configuration, or remove it; " +
	"then delete the Node and restart the kubelet, which registers it again: nobody can change a provider ID"

// ParseProviderID parses a Node's spec.providerID.
//
// It accepts external-cloudstack://ID, cloudstack://ID and cloudstack:///ID with any number of slashes, and a region or
// zone before the ID (cloudstack://region/ID). The returned ID is in lower case. It is empty for KindNone and for other
// schemes; neither is an error, because such a Node is found by its name.
func ParseProviderID(s string) (id string, kind Kind, err error) {
	if s == "" {
		return "", KindNone, nil
	}

	scheme, rest, ok := strings.Cut(s, ":/")
	if !ok {
		// Some users set the kubelet's --provider-id to the bare id.
		if bare := strings.ToLower(s); vmID.MatchString(bare) {
			return bare, KindExternal, nil
		}
		return "", KindNone, &ProviderIDError{ProviderID: s, Reason: "it has no scheme"}
	}

	if kind = Kind(strings.ToLower(scheme)); !kind.IsCloudStack() {
		return "", KindForeign, nil
	}

	switch {
	case strings.ContainsAny(s, "{}$<>"):
		return "", kind, &ProviderIDError{ProviderID: s, Reason: "it contains a template variable without a value"}
	case strings.ContainsAny(s, "'\"`"):
		return "", kind, &ProviderIDError{ProviderID: s, Reason: "it contains quotes"}
	}

	rest = strings.Trim(rest, "/")
	rest = rest[strings.LastIndexByte(rest, '/')+1:]
	id = strings.ToLower(rest)
	switch {
	case id == "":
		return "", kind, &ProviderIDError{ProviderID: s, Reason: "it has no id"}
	case !vmID.MatchString(id):
		return "", kind, &ProviderIDError{ProviderID: s, Reason: fmt.Sprintf("%q is not a UUID", rest)}
	}

	return id, kind, nil
}

// ProviderID returns the provider ID of a VM in the given format; an unknown or empty form means FormUpstream.
func ProviderID(form Form, id string) string {
	if form == FormClusterAPI {
		return "cloudstack:///" + id
	}
	return "external-cloudstack://" + id
}
