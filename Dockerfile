# An image of the service. Build it in the clone: docker build -t setwise .
FROM python:3.11-slim
WORKDIR /build
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir -c constraints.txt '.[serve]'
WORKDIR /models
USER nobody
EXPOSE 8000
ENTRYPOINT ["setwise", "serve", "--host", "0.0.0.0"]
CMD ["model.setwise"]
