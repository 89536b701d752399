package sashredis

// ScriptFiles returns the text of each file that scripts consist of, by its name.
func ScriptFiles() (map[string]string, error) {
	files, err := sources.ReadDir("scripts")
	texts := make(map[string]string, len(files))
	for _, file := range files {
		text, readErr := sources.ReadFile("scripts/" + file.Name())
		if readErr != nil {
			return nil, readErr
		}
		texts[file.Name()] = string(text)
	}
	return texts, err
}
