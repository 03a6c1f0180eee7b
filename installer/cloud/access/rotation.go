// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Rotation is the record of rotate-keys on the Secret. It changes in one write with the Secret's content, so that a
// second run continues a rotation from any machine.
type Rotation struct {
	To     string   `json:"to,omitempty"`    // user whose new keys are being made
	From   string   `json:"from,omitempty"`  // user whose keys the Secret held before, and which still work
	Spare  string   `json:"spare,omitempty"` // user that the next rotation takes
	Former []Former `json:"former,omitempty"`
}

// Former are keys that a rotation has replaced. An install that is run again with the flags of the first one may name
// them or their user.
type Former struct {
	User string `json:"user"`
	Key  string `json:"key"` // the fingerprint of the API key
}

const annotationRotation = "csccm.io/rotation"

// RotationOf reads the record on a Secret; it is empty where there is none.
func RotationOf(s *corev1.Secret) (r Rotation) {
	if s != nil {
		// a broken one is none: the rotation begins again
		_ = json.Unmarshal([]byte(s.Annotations[annotationRotation]), &r)
	}
	return r
}

// Write puts the record on a Secret, with the last twenty replaced keys.
func (r *Rotation) Write(s *corev1.Secret) {
	r.Former = r.Former[max(0, len(r.Former)-20):]
	text, _ := json.Marshal(r) // of strings alone
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, annotationRotation, string(text))
}

// Replaced adds the keys of a user to those that rotations have replaced.
func (r *Rotation) Replaced(user, apiKey string) {
	r.Former = append(r.Former, Former{user, fingerprint(apiKey)})
}

// fingerprint recognises an API key without holding it.
func fingerprint(apiKey string) string {
	sum := sha256.Sum256([]byte(apiKey))
	return hex.EncodeToString(sum[:8])
}

// HasReplaced reports whether rotate-keys has replaced this API key by the one that the Secret holds.
func (s *Secret) HasReplaced(apiKey string) bool {
	return s.Config != nil && apiKey != s.Config.APIKey &&
		slices.ContainsFunc(RotationOf(s.Object).Former, func(f Former) bool { return f.Key == fingerprint(apiKey) })
}

// FormerUsers returns the users whose keys the Secret held before.
func (s *Secret) FormerUsers() (names []string) {
	for _, f := range RotationOf(s.Object).Former {
		names = append(names, f.User)
	}
	return names
}
