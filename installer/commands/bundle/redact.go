// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/pkg/redact"
)

// redactor removes from text what must not leave the cluster. It removes known secrets and everything that looks like a
// secret. It replaces names and addresses by pseudonyms, which are the same within one bundle and differ between
// bundles.
type redactor struct {
	secrets   []string
	keepNames bool
	salt      []byte
	names     map[string]string // pseudonyms by name
	pattern   *regexp.Regexp    // matches the names; nil if there are none
	versions  map[string]bool   // versions, which look like addresses
}

const removed = "REDACTED"

func newRedactor(secrets []string, keepNames bool) *redactor {
	r := &redactor{
		keepNames: keepNames,
		salt:      make([]byte, 32),
		names:     map[string]string{},
		versions:  map[string]bool{},
	}
	_, _ = rand.Read(r.salt) // never fails
	for _, s := range secrets {
		const shortest = 4 // shorter secrets would match parts of ordinary words
		if len(s) >= shortest {
			r.secrets = append(r.secrets, s)
		}
	}
	return r
}

// everybodys are names that exist in every cluster or every CloudStack and so need no pseudonym.
var everybodys = []string{corev1.NamespaceDefault, metav1.NamespaceSystem, credentials.DefaultDomain}

// name registers names for redaction. Their pseudonyms begin with kind.
func (r *redactor) name(kind string, names ...string) {
	for _, name := range names {
		// Single letters and numbers occur in every text and identify nobody.
		letters := strings.ContainsFunc(name, func(c rune) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' })
		if len(name) > 1 && letters && !slices.Contains(everybodys, name) {
			r.names[name] = r.pseudonym(kind, name)
		}
	}
}

// pseudonym returns the pseudonym of text; it begins with kind.
func (r *redactor) pseudonym(kind, text string) string {
	mac := hmac.New(sha256.New, r.salt)
	mac.Write([]byte(text))
	return kind + "-" + hex.EncodeToString(mac.Sum(nil))[:8]
}

// ready compiles the pattern of all registered names. Call it after the last call of name.
func (r *redactor) ready() {
	names := make([]string, 0, len(r.names))
	for n := range r.names {
		names = append(names, regexp.QuoteMeta(n))
	}

	if len(names) == 0 {
		return
	}

	// A regular expression takes the first alternative that matches, so longer names come first.
	slices.SortFunc(names, func(a, b string) int { return len(b) - len(a) })
	r.pattern = regexp.MustCompile(`\b(?:` + strings.Join(names, "|") + `)\b`)
}

var (
	// secretPair matches a name such as apikey or token with its value.
	secretPair = regexp.MustCompile(`(?i)\b(api_?-?key|secret_?-?key|secret|signature|session_?-?key|jsessionid|passw(?:or)?d|token|authorization|bearer)(["']?\s*[=:]\s*["']?|\s+)[^\s&"',;}]{8,}`)
	// secretWord matches a long word, which may be random: keys of CloudStack have 86 characters, tokens begin with
	// eyJ. UUIDs are shorter, and digests are hexadecimal.
	secretWord = regexp.MustCompile(`[A-Za-z0-9_+/=-]{40,}`)
	hexWord    = regexp.MustCompile(`^[0-9a-fA-F-]+$`)
	ipv4       = regexp.MustCompile(`\b\d{1,3}(?:\.\d{1,3}){3}\b`)
	ipv6       = regexp.MustCompile(`[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}`)
	urlHost    = regexp.MustCompile(`\b(https?://)([^/\s:"'\\]+)`)
	pem        = regexp.MustCompile(`-----BEGIN [^-]+-----[\s\S]*?(?:-----END [^-]+-----|$)`)
)

// ownHost is the host of csccm's documentation, which needs no pseudonym.
const ownHost = "github.com"

// text redacts free text.
func (r *redactor) text(s string) string {
	for _, secret := range r.secrets {
		s = strings.ReplaceAll(s, secret, removed)
	}

	s = pem.ReplaceAllString(redact.URLs(s), removed)
	s = secretPair.ReplaceAllString(s, "${1}${2}"+removed)
	s = secretWord.ReplaceAllStringFunc(s, func(w string) string {
		// A key mixes capital letters and digits; paths, label names and words of letters only usually do not.
		mixed := strings.ContainsAny(w, "0123456789") &&
			strings.ContainsFunc(w, func(c rune) bool { return c >= 'A' && c <= 'Z' })
		if hexWord.MatchString(w) || !mixed {
			return w
		}
		return removed
	})

	if r.keepNames {
		return s
	}

	s = urlHost.ReplaceAllStringFunc(s, func(u string) string {
		scheme, host, _ := strings.Cut(u, "://")
		if host == ownHost {
			return u
		}
		return scheme + "://" + r.pseudonym("host", host)
	})

	s = r.addresses(s)
	if r.pattern != nil {
		s = r.pattern.ReplaceAllStringFunc(s, func(n string) string { return r.names[n] })
	}

	return s
}

// addresses replaces the IP addresses in s by pseudonyms.
func (r *redactor) addresses(s string) string {
	for _, p := range []*regexp.Regexp{ipv4, ipv6} {
		s = p.ReplaceAllStringFunc(s, func(a string) string {
			ip, err := netip.ParseAddr(a)
			if err != nil || r.versions[a] || ip.IsLoopback() || ip.IsUnspecified() {
				return a
			}
			return r.pseudonym("ip", ip.String())
		})
	}
	return s
}

// verbatim are the JSON fields whose values come from csccm itself, so they are not redacted.
var verbatim = []string{
	"schemaVersion", "code", "category", "title", "result", "severity", "hint", "kind", "phase", "outcome", "at",
	"version",
}

// value encodes v as JSON and returns the decoded tree with all strings redacted.
func (r *redactor) value(v any) (any, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}

	var tree any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return nil, err
	}

	return r.tree(tree), nil
}

// tree redacts all strings of a decoded JSON value.
func (r *redactor) tree(v any) any {
	switch v := v.(type) {
	case string:
		return r.text(v)

	case []any:
		for i := range v {
			v[i] = r.tree(v[i])
		}
		return v

	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			// Names of JSON fields are not redacted. Keys of maps, such as "Node worker-1", may contain names.
			key := k
			if strings.ContainsAny(k, " /.") {
				key = r.text(k)
			}

			if !slices.Contains(verbatim, k) {
				x = r.tree(x)
			}

			out[key] = x
		}

		return out
	}

	return v
}

// Redaction returns a function that removes these secrets, and everything that looks like a secret, from text. It keeps
// names.
func Redaction(secrets []string) func(string) string { return newRedactor(secrets, true).text }
