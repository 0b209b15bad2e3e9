# docker build -t uqled .
# docker run --rm -v "$PWD:/data" uqled find photos/
# docker run --rm -v "$PWD:/data" -p 127.0.0.1:8790:8790 uqled review runs/photos --host 0.0.0.0 --no-browser
# The Python that constraints.txt was made with.
FROM python:3.11-slim

# PyTorch without GPU packages, which would be several gigabytes.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN pip install --no-cache-dir --index-url "$TORCH_INDEX" torch==2.13.0

COPY pyproject.toml README.md LICENSE constraints.txt /source/
COPY src /source/src
COPY tools /source/tools
RUN pip install --no-cache-dir -c /source/constraints.txt '/source[images,text,jpeg,review,excel]' \
    && rm -rf /source

# Runs belong to whoever owns the mounted folder if --user names that person.
ENV HOME=/tmp XDG_CACHE_HOME=/tmp/cache
WORKDIR /data
ENTRYPOINT ["uqled"]
CMD ["--help"]
