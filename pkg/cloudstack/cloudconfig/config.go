// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cloudconfig reads and writes the cloud-config, the INI file that tells the controller how to reach
// CloudStack.
package cloudconfig

//go:generate go test . -run Readme -update-docs

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// APIPath is where CloudStack serves its API.
const APIPath = "/client/api"

const (
	exampleURL = "https://cloud.example.com" + APIPath
	redacted   = "REDACTED"
)

// Defaults of a Config.
const (
	DefaultTimeout    = 60 * time.Second
	DefaultJobTimeout = 10 * time.Minute
	defaultRateBurst  = 40
)

// AutoRate is the value of RateLimit that follows the server's own limit.
const AutoRate = -1

// Config is the cloud-config: an INI file with one section [Global]. The table keys defines its keys.
type Config struct {
	APIURL      string
	APIKey      string
	SecretKey   string
	ProjectID   string // UUID or name
	Zone        string // name or ID; "" means any
	NodeVMs     string // VMs that may be nodes: a pattern of names, or a tag as key=value; "" means all
	Region      string // "" means the zone's name
	SSLNoVerify bool
	CAFile      string
	Timeout     time.Duration // of one HTTP call
	JobTimeout  time.Duration // of one asynchronous job
	RateLimit   float64       // calls per second; 0 means unlimited, AutoRate what the server allows
	RateBurst   int
	ClusterID   string // name of the cluster in tags
	// FormerClusterIDs are names that the cluster had in tags earlier.
	FormerClusterIDs []string
	// LBMode is the mode of Services that choose none by annotation; "" means auto.
	LBMode string
	// Ignored are keys of another provider, for which csccm has no use.
	Ignored []string
	// CABundle is a second PEM file, from a flag; it has no key.
	CABundle string
}

// Default returns a Config with the defaults of Parse and nothing else.
func Default() Config {
	return Config{
		Timeout:    DefaultTimeout,
		JobTimeout: DefaultJobTimeout,
		RateLimit:  AutoRate,
		RateBurst:  defaultRateBurst,
	}
}

// Error means that the configuration must be corrected. No call was sent.
type Error struct{ Err error }

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Validate returns the first problem with the values as an *Error. It never contains a secret.
func (c *Config) Validate() error { return c.check(false) }

// ValidateKeys is like Validate, but checks only api-key and secret-key.
func (c *Config) ValidateKeys() error { return c.check(true) }

// check validates the values of all keys, or only of those that are secret.
func (c *Config) check(onlySecrets bool) error {
	for i := range keys {
		if k := &keys[i]; k.check != nil && (k.secret || !onlySecrets) {
			if err := k.check(c); err != nil {
				return &Error{err}
			}
		}
	}
	return nil
}

// Warnings returns hints about values that work for some installations but are probably not intended. They never
// contain a secret.
func (c *Config) Warnings() []string {
	var w []string
	if u, err := c.Endpoint(); err == nil && strings.TrimSuffix(u.Path, "/") != APIPath {
		w = append(w, fmt.Sprintf("api-url has %s; CloudStack usually serves its API at %s",
			cmp.Or(u.Path, "no path"), APIPath))
	}

	for _, name := range c.Ignored {
		w = append(w, name+" is a key of another provider and has no effect")
	}

	if c.SSLNoVerify {
		w = append(w,
			"ssl-no-verify is on: anyone between the controller and CloudStack can read and change all calls; "+
				"use ca-file")
	}

	if c.RateLimit == AutoRate && c.RateBurst != defaultRateBurst {
		w = append(w,
			"rate-burst has no effect while rate-limit is auto; set rate-limit to a number of calls per second, or "+
				"remove rate-burst")
	}

	return w
}

// Endpoint parses api-url. Errors do not repeat the value: it may hold credentials.
func (c *Config) Endpoint() (*url.URL, error) {
	u, err := url.Parse(c.APIURL)
	var problem string
	switch {
	case c.APIURL == "":
		problem = "is missing"
	case err != nil:
		problem = "is not a URL"
	case u.Scheme != "http" && u.Scheme != "https":
		problem = "must begin with http:// or https://"
	case u.Hostname() == "":
		problem = "has no host"
	case u.User != nil:
		problem = "must not hold a user or password"
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		problem = "must end with the path, without ? or #"
	default:
		return u, nil
	}

	return nil, errors.New("api-url: " + problem + "; write for example " + exampleURL)
}

// String shows everything but the secrets.
func (c Config) String() string {
	b, _ := json.Marshal(c) // never fails
	return "cloudstack.Config" + string(b)
}

// Format writes String for every verb, so that none shows secrets.
func (c Config) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// MarshalJSON returns the values that Render writes, without secrets.
func (c Config) MarshalJSON() ([]byte, error) {
	out := map[string]string{}
	for k, v := range c.values {
		if k.secret {
			v = redacted
		}
		out[k.name] = v
	}
	if _, err := c.Endpoint(); err != nil {
		delete(out, "api-url") // it may hold credentials
	}
	return json.Marshal(out)
}

// values yields the keys with a value that is not the default.
func (c *Config) values(yield func(*key, string) bool) {
	def := Default()
	for i := range keys {
		k := &keys[i]
		if v := k.get(c); v != "" && v != k.get(&def) && !yield(k, v) {
			return
		}
	}
}

// Differences describes the settings whose values differ in wanted. It does not show the values of secrets.
func (c *Config) Differences(wanted *Config) []string {
	quoted := func(s string) string {
		if s == "" {
			return "not set"
		}
		return strconv.Quote(s)
	}

	var out []string
	for i := range keys {
		k := &keys[i]
		switch was, now := k.get(c), k.get(wanted); {
		case was == now:
		case k.secret:
			out = append(out, k.name+" differs")
		default:
			out = append(out, fmt.Sprintf("%s is %s, would be %s", k.name, quoted(was), quoted(now)))
		}
	}

	return out
}

// digestLength is long enough to compare values, and too short to reveal a secret.
const digestLength = 12

// Digests returns digests of the values that are not the default, by key.
func (c *Config) Digests() map[string]string {
	out := map[string]string{}
	for k, v := range c.values {
		out[k.name] = fmt.Sprintf("%x", sha256.Sum256([]byte(v)))[:digestLength]
	}
	return out
}

// NeedsRestart returns the names of the keys whose new values take effect only when the controller restarts.
func (c *Config) NeedsRestart(now *Config) []string {
	var out []string
	for i := range keys {
		if k := &keys[i]; k.atStart && k.get(c) != k.get(now) {
			out = append(out, k.name)
		}
	}
	return out
}
