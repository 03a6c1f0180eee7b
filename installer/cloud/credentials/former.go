// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Annotations of the Secret about the keys that it held before, separated by commas. An install that is run again with
// the flags of the first one names a user or keys that rotate-keys has replaced since.
const (
	AnnotationFormerUsers = "csccm.io/former-users"
	annotationFormerKeys  = "csccm.io/former-keys" // fingerprints of the API keys
)

// mostFormer is how many replaced keys are remembered.
const mostFormer = 20

// ReplaceUser records on the Secret that the keys of user to replace those of user from.
func ReplaceUser(s *corev1.Secret, from, to string, fromKey, toKey string) {
	replace(s, AnnotationFormerUsers, from, to)
	replace(s, annotationFormerKeys, fingerprint(fromKey), fingerprint(toKey))
}

func replace(s *corev1.Secret, annotation, from, to string) {
	all := slices.DeleteFunc(list(s, annotation), func(old string) bool { return old == from || old == to })
	all = append(all, from)
	s.Annotations[annotation] = strings.Join(all[max(0, len(all)-mostFormer):], ",")
}

func list(s *corev1.Secret, annotation string) []string {
	return strings.FieldsFunc(s.Annotations[annotation], func(r rune) bool { return r == ',' })
}

// fingerprint recognises an API key without holding it.
func fingerprint(apiKey string) string {
	sum := sha256.Sum256([]byte(apiKey))
	return hex.EncodeToString(sum[:8])
}

// FormerUsers returns the users whose keys the Secret held before those of now.
func (s *Secret) FormerUsers() []string {
	if s.Object == nil {
		return nil
	}
	return list(s.Object, AnnotationFormerUsers)
}

// HasReplaced reports whether rotate-keys has replaced this API key by the one that the Secret holds.
func (s *Secret) HasReplaced(apiKey string) bool {
	return s.Object != nil && s.Config != nil && apiKey != s.Config.APIKey && slices.Contains(list(s.Object, annotationFormerKeys), fingerprint(apiKey))
}
