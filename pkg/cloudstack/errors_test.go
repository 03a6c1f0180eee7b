// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRecordedErrors sends recorded refusals through the whole client.
func TestRecordedErrors(t *testing.T) {
	t.Parallel()
	csCode := regexp.MustCompile(`"cserrorcode": ?(\d+)`)
	for kind, names := range map[Kind]string{
		KindNotFound: "listVirtualMachines.unknown-id listLoadBalancerRules.unknown-id " +
			"createLoadBalancerRule.unknown-ip queryAsyncJobResult.unknown-job",
		KindNotPermitted: "listVirtualMachines.projectid-not-a-member listLoadBalancerRuleInstances.other-account " +
			"listDomains.user getUserKeys.other auth.unknown-command auth.command-not-permitted " +
			"queryAsyncJobResult.other-accounts-job associateIpAddress.other-accounts-network",
		KindInvalid: "listVirtualMachines.page-without-pagesize listFirewallRules.after-disassociate " +
			"createAccount.duplicate createTags.missing-tags associateIpAddress.no-params createLoadBalancerRule.udp " +
			"smallpage.listVirtualMachines.pagesize-500",
		KindUnknown: "listApis.unknown createRole.duplicate createRole.bogus-type createUser.duplicate " +
			"customjobid.associate-same-id-again",
		KindAuth:     "login.bad-password login.session-without-sessionkey auth.bad-signature auth.no-credentials",
		KindLimit:    "associateIpAddress.limit-reached",
		KindCapacity: "associateIpAddress.pool-exhausted",
		KindConflict: "createLoadBalancerRule.on-static-nat-ip concurrent.create-same-port-1 " +
			"createFirewallRule.duplicate",
		KindThrottled: "throttle.exceeded throttle.exceeded-async-command",
	} {
		for name := range strings.FieldsSeq(names) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				g := recording(t, name)
				var out map[string]any
				err := goldenAPI(t, name).client(t).Call(context.WithValue(t.Context(), singleTry{}, true), g.Command,
					nil, &out)
				e := asError(t, err)
				require.Equal(t, kind, e.Kind, e.Error())
				require.Equal(t, g.HTTPStatus, e.HTTPCode)
				if m := csCode.FindSubmatch(g.Body()); m != nil || e.CSCode != 0 {
					require.Equal(t, string(m[1]), strconv.Itoa(e.CSCode))
				}

				require.Equal(t, g.Command, e.Command)
				require.False(t, e.MayHaveHappened, "the server has answered")
				require.True(t, IsKind(fmt.Errorf("wrapped: %w", err), kind))
				require.Equal(t, kind == KindNotFound, IsNotFound(err))
				require.NotContains(t, e.Text, "user id [", "the random id makes every refusal a new text")
			})
		}
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		command string
		code    int
		text    string
		want    Kind
	}{
		{"listZones", 401, "The given command 'listZones' either does not exist, is not available for user.",
			KindNotPermitted},
		{"listZones", 400, "", KindInvalid},
		{"login", 405, "", KindInvalid},
		{"createLBHealthCheckPolicy", 430, "HealthCheck Policy is not supported by LB Provider", KindInvalid},
		{"listProjects", 431, "Unable to find project by id 7", KindNotFound},
		{"listZones", 511, "", KindAuth},
		{"x", 500, "", KindTransient},
		{"x", 504, "", KindTransient},
		{"x", 534, "", KindTransient},
		{"x", 535, "", KindLimit},
		{"x", 536, "", KindUnknown},
		{"x", 599, "", KindUnknown},
	} {
		require.Equal(t, tc.want, classify(tc.command, tc.code, tc.text), "%s %d %s", tc.command, tc.code, tc.text)
	}
}

func TestErrorText(t *testing.T) {
	t.Parallel()
	e := &Error{
		Kind:            KindJobFailed,
		Command:         "createTags",
		HTTPCode:        530,
		CSCode:          4250,
		Text:            "tag svc already there",
		JobID:           "j1",
		MayHaveHappened: true,
		Err:             context.Canceled,
	}
	require.Equal(t, "cloudstack createTags: tag svc already there (code 530/4250) (job j1); it may have taken effect",
		e.Error())
	require.ErrorIs(t, e, context.Canceled)
	require.Equal(t, "cloudstack: failed without a reason given", (&Error{}).Error())
	require.False(t, IsKind(errors.New("x"), KindUnknown), "only an *Error has a kind")
	require.Equal(t, "JobFailed", KindJobFailed.String())
}

// TestSecretsInErrors checks errors of a server whose answer repeats the request.
func TestSecretsInErrors(t *testing.T) {
	t.Parallel()
	f := newFakeAPI(func(_ int, form url.Values) reply {
		text := "you sent " + form.Encode() + " that is " + form.Get("apiKey") + " " + form.Get("signature") + " " +
			form.Get("password") + " " + testSecretKey
		return func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusRequestHeaderFieldsTooLarge) // CloudStack's 431: a parameter error
			_, _ = fmt.Fprintf(w, `{"x":{"errorcode":431,"errortext":%q}}`, text)
		}
	})
	c := f.client(t)
	err := c.Call(t.Context(), "createUser", Params{"username": "u", "password": testPassword}, nil)
	e := asError(t, err)
	texts := []string{err.Error(), fmt.Sprintf("%v %+v %#v %s %q", err, err, e, err, err)}
	for _, call := range f.recorded() {
		for _, text := range texts {
			require.NotContains(t, text, call.Form.Get("signature"))
		}
	}
	requireNoSecrets(t, texts...)

	for _, v := range []any{
		c, c.String(), *testConfig(), testConfig(), struct{ C *Client }{c},
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			requireNoSecrets(t, fmt.Sprintf(verb, v))
		}
	}
}

func TestSanitized(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain text":                             "plain text",
		"see https://h/p?apiKey=abc&signature=d": "see https://h/p",
		"at http://u:pw@h/p":                     "at http://REDACTED@h/p",
		"apikey=abcdef, rest":                    "apikey=REDACTED, rest",
		`"secretkey":"abcdef"`:                   `"secretkey":"REDACTED"`,
		"sessionkey: abc; x":                     "sessionkey: REDACTED; x",
		"two\nlines\tand\x00more":                "two lines and more",
		"mine is TopSecretValue here":            "mine is REDACTED here",
		"The API [x] does not exist or is not available for the account for user id [9a8b2360-e86e-4f25-acac-8a18ff9a1a4e].": "The API [x] does not exist or is not available for the account.",
	} {
		require.Equal(t, want, sanitized(in, "TopSecretValue", "no"))
	}
	require.Len(t, sanitized(strings.Repeat("1", 1500)), maxText+3)
}
