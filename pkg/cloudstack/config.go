// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"time"
)

// apiPath is where CloudStack serves its API.
const apiPath = "/client/api"

// Config is the cloud-config file: an INI document with one section [Global].
type Config struct {
	APIURL      string        // api-url
	APIKey      string        // api-key
	SecretKey   string        // secret-key
	ProjectID   string        // project-id: UUID or name
	Zone        string        // zone: name or id; "" means any
	Region      string        // region: label value; "" means the zone's name
	SSLNoVerify bool          // ssl-no-verify
	CAFile      string        // ca-file: PEM bundle for the API's certificate
	Timeout     time.Duration // timeout: of one HTTP call (default 60s)
	JobTimeout  time.Duration // job-timeout: of one asynchronous job (default 10m)
	RateLimit   float64       // rate-limit: calls per second (default 20; 0 = unlimited)
	RateBurst   int           // rate-burst (default 40)
	CABundle    string        // no key of the file: one more PEM bundle, from a flag
	// PreviousRecordKey is previous-record-key: it checks records on Services that were signed before the secret key
	// was replaced. csccm rotate-keys writes it.
	PreviousRecordKey string
	ClusterID         string // cluster-id: written to tags; default "kubernetes" by the provider's cluster name
}

// DefaultConfig is a Config with the defaults of ParseConfig and nothing else.
func DefaultConfig() Config {
	return Config{Timeout: defaultTimeout, JobTimeout: defaultJobTimeout, RateLimit: defaultRateLimit, RateBurst: defaultRateBurst}
}

// Validate tells the first thing that is wrong with the values, without naming any secret.
func (c *Config) Validate() error {
	if err := c.validate(); err != nil {
		return &ConfigError{err}
	}
	return nil
}

// ConfigError is a configuration that must be corrected: nothing was asked of the server.
type ConfigError struct{ err error }

func (e *ConfigError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *ConfigError) Unwrap() error { return e.err }

func (c *Config) validate() error {
	if _, err := checkURL(c.APIURL); err != nil {
		return fmt.Errorf("api-url: %w", err)
	}
	if err := c.requireKeys(); err != nil {
		return err
	}
	switch {
	case c.Timeout < 0:
		return errors.New("timeout: must not be negative; write for example 60s")
	case c.JobTimeout < 0:
		return errors.New("job-timeout: must not be negative; write for example 10m")
	case c.RateLimit < 0:
		return errors.New("rate-limit: must not be negative; 0 means unlimited")
	case c.RateBurst < 0:
		return errors.New("rate-burst: must not be negative")
	}
	return nil
}

func (c *Config) requireKeys() error {
	if c.APIKey == "" {
		return errors.New("api-key is missing: add the API key of the CloudStack user")
	}
	if c.SecretKey == "" {
		return errors.New("secret-key is missing: add the secret key that belongs to api-key")
	}
	for _, k := range []struct{ name, value string }{{"api-key", c.APIKey}, {"secret-key", c.SecretKey}} {
		if strings.ContainsFunc(k.value, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			return fmt.Errorf("%s has blanks or control characters in it: check that it was pasted whole", k.name)
		}
	}
	return nil
}

// Warnings are hints about values that work for some installations but are
// probably not meant; none has a secret in it.
func (c *Config) Warnings() []string {
	var w []string
	if u, err := checkURL(c.APIURL); err == nil && strings.TrimSuffix(u.Path, "/") != apiPath {
		shown := u.Path
		if shown == "" {
			shown = "no path"
		}
		w = append(w, fmt.Sprintf("api-url has %s; CloudStack usually serves its API at %s", shown, apiPath))
	}
	if c.SSLNoVerify {
		w = append(w, "ssl-no-verify is on: whoever is on the way to CloudStack can read and change everything; use ca-file")
	}
	return w
}

// checkURL parses api-url. Errors do not repeat the value: it may hold credentials.
func checkURL(raw string) (*url.URL, error) {
	const example = "write for example https://cloud.example.com" + apiPath
	if raw == "" {
		return nil, errors.New("is missing; " + example)
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil:
		return nil, errors.New("is not a URL; " + example)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("must begin with http:// or https://; " + example)
	case u.Hostname() == "":
		return nil, errors.New("has no host; " + example)
	case u.User != nil:
		return nil, errors.New("must not hold a user or password; " + example)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, errors.New("must end with the path, without ? or #; " + example)
	}
	return u, nil
}

// String shows everything but the keys.
func (c Config) String() string {
	b, err := json.Marshal(c)
	if err != nil {
		return "cloudstack.Config"
	}
	return "cloudstack.Config" + string(b)
}

// GoString is String: %#v must not show keys.
func (c Config) GoString() string { return c.String() }

// Format writes String for every verb, so that none shows keys.
func (c Config) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// LogValue is the configuration without keys.
func (c Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

// MarshalJSON is the configuration without keys; Render is the way to write it with them.
func (c Config) MarshalJSON() ([]byte, error) {
	hide := func(s string) string {
		if s == "" {
			return ""
		}
		return redacted
	}
	endpoint := ""
	if u, err := checkURL(c.APIURL); err == nil {
		endpoint = u.String()
	}
	return json.Marshal(struct {
		APIURL      string `json:"api-url"`
		APIKey      string `json:"api-key"`
		SecretKey   string `json:"secret-key"`
		ProjectID   string `json:"project-id,omitempty"`
		Zone        string `json:"zone,omitempty"`
		Region      string `json:"region,omitempty"`
		SSLNoVerify bool   `json:"ssl-no-verify,omitempty"`
		CAFile      string `json:"ca-file,omitempty"`
		ClusterID   string `json:"cluster-id,omitempty"`
	}{endpoint, hide(c.APIKey), hide(c.SecretKey), c.ProjectID, c.Zone, c.Region, c.SSLNoVerify, c.CAFile, c.ClusterID})
}
