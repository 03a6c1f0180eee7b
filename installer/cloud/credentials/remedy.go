// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/inventory"
)

// certificateRemedy is for a certificate that no ca-file makes good; "" where err is not about one.
func certificateRemedy(err error) string {
	switch cloudstack.TLSFaultOf(err) {
	case cloudstack.TLSExpired:
		return "have CloudStack's certificate renewed, or correct the clock of this machine"
	case cloudstack.TLSOtherHost:
		return "use a host name of CloudStack's certificate in api-url, or have the certificate made for this one"
	case cloudstack.TLSAbsent:
		return "correct scheme or port of api-url: what answers there is not HTTPS"
	case cloudstack.TLSFine, cloudstack.TLSUntrusted:
	}
	return ""
}

// unanswered is a CloudStack that cannot be reached by a URL that was just given.
func unanswered(apiURL string, err error) *Error {
	return &Error{
		What: fmt.Sprintf("no CloudStack API answers at %s", apiURL), Err: err,
		Fix: cmp.Or(certificateRemedy(err), "check --api-url (it usually ends in /client/api), the network, and --ca-file for a private certificate"),
	}
}

// BadInput reports whether an error of CloudStack's client is about the configuration that it was given: a project that
// does not exist, a ca-file that is none, a key with blanks in it. The operator must correct that first.
func BadInput(err error) bool {
	var project *inventory.ProjectError
	var config *cloudconfig.Error
	return errors.As(err, &config) || errors.As(err, &project) && project.Err == nil
}

// Remedy says in one line what would be right where CloudStack, or the way there, has refused the
// controller's own credentials; "" where err is not about that.
func Remedy(err error) string {
	var project *inventory.ProjectError
	if errors.As(err, &project) && project.Err == nil {
		return "set project-id in the cloud-config to the project of the cluster's VMs, and make the keys' account a member of it"
	}
	var config *cloudconfig.Error
	if errors.As(err, &config) {
		return "correct it in the flag, the file or the Secret that it comes from"
	}
	var api *cloudstack.Error
	if !errors.As(err, &api) || errors.Is(err, context.Canceled) {
		return ""
	}
	switch {
	case certificateRemedy(err) != "":
		return certificateRemedy(err)
	case strings.Contains(api.Text, "certificate is not trusted"):
		return "give the authority of CloudStack's certificate: ca-file in the file of --cloud-config, or csccm install --ca-file FILE for the Secret"
	case strings.Contains(api.Text, "in place of the API"):
		return "correct api-url in the cloud-config: it usually ends in /client/api"
	}
	//nolint:exhaustive // the others are about one object, which their text names
	switch api.Kind {
	case cloudstack.KindAuth:
		return "check api-key and secret-key in the cloud-config, and that user and account are enabled; csccm rotate-keys makes a new pair"
	case cloudstack.KindNotPermitted:
		return "add " + api.Command + " to the role of the keys' account, or give it the default role User; csccm doctor --only CS-003 names all that is missing"
	case cloudstack.KindThrottled:
		return "wait a minute, then run the command again"
	case cloudstack.KindTransient:
		return "check api-url in the cloud-config, that the management server answers, and the network between here and there"
	}
	return ""
}
