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

// Rotation is the record that rotate-keys keeps in an annotation of the Secret. It is written in the same update as the
// Secret's content, so that a second run can continue a rotation on any machine.
type Rotation struct {
	To     string   `json:"to,omitempty"`    // user for whom new keys are being created
	From   string   `json:"from,omitempty"`  // user whose keys the Secret held before; these keys still work
	Spare  string   `json:"spare,omitempty"` // user for the next rotation
	Former []Former `json:"former,omitempty"`
}

// Former is a key pair that a rotation has replaced. The flags of the first install, given again, may still name these
// keys or their user.
type Former struct {
	User string `json:"user"`
	Key  string `json:"key"` // the fingerprint of the API key
}

const annotationRotation = "csccm.io/rotation"

// RotationOf returns the record on a Secret; it is empty if there is none.
func RotationOf(s *corev1.Secret) (r Rotation) {
	if s != nil {
		// Treat a record that cannot be parsed as none: the rotation starts again.
		_ = json.Unmarshal([]byte(s.Annotations[annotationRotation]), &r)
	}
	return r
}

// Write stores the record on a Secret, with the last twenty replaced keys.
func (r *Rotation) Write(s *corev1.Secret) {
	r.Former = r.Former[max(0, len(r.Former)-20):]
	text, _ := json.Marshal(r) // cannot fail: there are only strings
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, annotationRotation, string(text))
}

// Replaced adds the keys of a user to the replaced keys.
func (r *Rotation) Replaced(user, apiKey string) {
	r.Former = append(r.Former, Former{user, fingerprint(apiKey)})
}

// fingerprint returns a hash that identifies an API key.
func fingerprint(apiKey string) string {
	sum := sha256.Sum256([]byte(apiKey))
	return hex.EncodeToString(sum[:8])
}

// HasReplaced reports whether rotate-keys has replaced this API key with the one in the Secret.
func (s *Secret) HasReplaced(apiKey string) bool {
	return s.Config != nil && apiKey != s.Config.APIKey &&
		slices.ContainsFunc(RotationOf(s.Object).Former, func(f Former) bool { return f.Key == fingerprint(apiKey) })
}

// FormerUsers returns the users whose keys were in the Secret before.
func (s *Secret) FormerUsers() (names []string) {
	for _, f := range RotationOf(s.Object).Former {
		names = append(names, f.User)
	}
	return names
}
