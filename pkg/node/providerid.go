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

	corev1 "k8s.io/api/core/v1"
)

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

// malformed returns an error with ReasonInvalidProviderID.
func malformed(providerID, problem string) error {
	return &eventError{ReasonInvalidProviderID, fmt.Errorf(
		"provider id %q, which is the kubelet's --provider-id: %s: want %s or %s",
		providerID, problem, ProviderID(FormUpstream, "VM-ID"), ProviderID(FormClusterAPI, "VM-ID"))}
}

// RemedyProviderID is what to do about an error with ReasonInvalidProviderID.
const RemedyProviderID = "correct the kubelet's --provider-id, or providerID in its configuration, or remove it; " +
	"then delete the Node and restart the kubelet, which registers it again: nobody can change a provider ID"

// ParseProviderID returns the VM's ID, in lower case, from a Node's spec.providerID.
//
// It accepts external-cloudstack://ID, cloudstack://ID and cloudstack:///ID with any number of slashes, a region or
// zone before the ID (cloudstack://region/ID), and the bare ID, to which some users set the kubelet's --provider-id.
// The ID is empty for an empty provider ID and for other schemes, such as that of k3s; neither is an error, because
// such a Node is found by its name.
func ParseProviderID(s string) (id string, err error) {
	scheme, rest, ok := strings.Cut(s, ":/")
	scheme = strings.ToLower(scheme)
	switch {
	case s == "", ok && scheme != string(FormUpstream) && scheme != string(FormClusterAPI):
		return "", nil
	case !ok && vmID.MatchString(scheme):
		return scheme, nil
	case !ok:
		return "", malformed(s, "it has no scheme")
	case strings.ContainsAny(s, "{}$<>"):
		return "", malformed(s, "it contains a template variable without a value")
	case strings.ContainsAny(s, "'\"`"):
		return "", malformed(s, "it contains quotes")
	}

	rest = strings.Trim(rest, "/")
	rest = rest[strings.LastIndexByte(rest, '/')+1:]
	id = strings.ToLower(rest)
	switch {
	case id == "":
		return "", malformed(s, "it has no id")
	case !vmID.MatchString(id):
		return "", malformed(s, fmt.Sprintf("%q is not a UUID", rest))
	}
	return id, nil
}

// HasVMID reports whether a Node's provider ID contains the ID of a CloudStack VM.
func HasVMID(n *corev1.Node) bool {
	id, _ := ParseProviderID(n.Spec.ProviderID) // an invalid one contains none
	return id != ""
}

// ProviderID returns the provider ID of a VM in the given format; an unknown or empty form means FormUpstream.
func ProviderID(form Form, id string) string {
	if form == FormClusterAPI {
		return "cloudstack:///" + id
	}
	return "external-cloudstack://" + id
}
