package manifests

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// sensitiveName is how people name variables whose value nobody else should read.
var sensitiveName = regexp.MustCompile(`(?i)(PASSWORD|PASSWD|SECRET|TOKEN|PRIVATE|CREDENTIAL|LICENSE|_PSK|_KEYS?$|API_?KEY|CONNECTION_URL|_DSN$)`)

// harmlessName is what only names or describes such a value.
var harmlessName = regexp.MustCompile(`(?i)(_FILE|_PATH|_NAME|_ENABLED?|_DISABLED?|_TTL|_LIFETIME|_DURATION|_FIELD|_TOKEN_URL|_TYPE)$`)

// sensitiveValue is what gives a secret away whatever its name: keys in PEM, JSON
// Web Tokens, and tokens of well-known services.
var sensitiveValue = regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----|\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{5,}\.|\b(gh[pousr]_|github_pat_|glpat-|xox[abp]-|AKIA)[A-Za-z0-9_-]{10,}`)

var embeddedURL = regexp.MustCompile(`[a-z][a-z0-9+.-]*://[^\s"']+`)

// secretVariable says whether a variable holds a secret.
func secretVariable(name, value string) bool {
	if value == "" || strings.HasPrefix(value, "$(") {
		return false
	}
	return secretText(value) || (sensitiveName.MatchString(name) && !harmlessName.MatchString(name) && !plainValue(name, value))
}

// plainValue is a value that is none, such as a flag, or an address of a database
// without a password.
func plainValue(name, value string) bool {
	switch strings.ToLower(value) {
	case "true", "false", "0", "1":
		return true
	}
	return strings.Contains(strings.ToUpper(name), "CONNECTION_URL") && strings.Contains(value, "://")
}

// HoldsSecret says whether one of the texts holds a secret by itself.
func HoldsSecret(texts ...string) bool { return slices.ContainsFunc(texts, secretText) }

// secretText says whether a text holds a secret by itself.
func secretText(text string) bool {
	if sensitiveValue.MatchString(text) {
		return true
	}
	for _, found := range embeddedURL.FindAllString(text, -1) {
		address, err := url.Parse(found)
		if err != nil {
			// An address that cannot be read may still hold a password.
			return strings.Contains(found, "@")
		}
		if _, has := address.User.Password(); has || address.Query().Has("password") {
			return true
		}
	}
	return false
}

// screened is a value without the secrets in it: a variable with one refers to a
// key of a Secret instead, which refer names, and any other text with one is an
// error that says where it stands. The value itself is not changed.
func screened(path string, value any, refer func(path, variable string) map[string]any) (any, error) {
	switch v := value.(type) {
	case string:
		if secretText(v) {
			return nil, fmt.Errorf("%s holds a credential, which is not copied; put it into a Secret and refer to that", path)
		}
	case []any:
		clean := make([]any, 0, len(v))
		for i, entry := range v {
			below, err := screened(fmt.Sprintf("%s[%d]", path, i), entry, refer)
			if err != nil {
				return nil, err
			}
			clean = append(clean, below)
		}
		return clean, nil
	case map[string]any:
		name, named := v["name"].(string)
		text, valued := v["value"].(string)
		if named && valued && secretVariable(name, text) {
			return refer(path, name), nil
		}
		clean := map[string]any{}
		for key, entry := range v {
			if flagged, isText := entry.(string); isText && sensitiveKey(key, flagged) {
				return nil, fmt.Errorf("%s.%s looks like a secret, which is not copied; put it into a Secret and refer to that", path, key)
			}
			below, err := screened(path+"."+key, entry, refer)
			if err != nil {
				return nil, err
			}
			clean[key] = below
		}
		return clean, nil
	}
	return value, nil
}

// sensitiveKey says whether the key of a map names a secret and holds one. Names of
// Secrets and of their keys are none.
func sensitiveKey(key, value string) bool {
	switch strings.ToLower(key) {
	case "password", "passwd", "token", "apikey", "api_key", "client_secret", "clientsecret":
		return value != ""
	}
	return false
}
