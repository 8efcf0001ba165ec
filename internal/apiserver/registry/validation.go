package registry

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/coder-k8s/coder-k8s/internal/coderd"
)

// ValidateChanged returns an error if a text that an update sets or changes does not pass the check.
func ValidateChanged(path *field.Path, text, old string, check func(string) error) field.ErrorList {
	if text == "" || text == old {
		return nil
	}
	if problem := check(text); problem != nil {
		return field.ErrorList{field.Invalid(path, text, problem.Error())}
	}
	return nil
}

// ValidateText returns an error if a text that an update sets or changes has more characters than Coder stores.
func ValidateText(path *field.Path, text, old string, most int) field.ErrorList {
	if text == old {
		return nil
	}
	if problem := coderd.CheckText(text, most); problem != nil {
		return field.ErrorList{field.Invalid(path, field.OmitValueType{}, problem.Error())}
	}
	return nil
}

// ValidateValue returns an error if Coder cannot store the value of a parameter or a variable, which may be secret.
func ValidateValue(path *field.Path, value string) field.ErrorList {
	return ValidateText(path, value, "", len(value))
}
